"""Due times: at most a year ahead by the broker's clock, with tolerance for the client's clock."""

import pytest

from litemq.broker.admission.due_time import check_due
from litemq.clock import FakeClock
from litemq.errors import DiskFullError, InvalidArgumentError
from litemq.storage.memory_store import MemoryStore
from litemq.types import CLOCKS_DIFFER_MS, MAX_DELAY_MS


def test_the_latest_due_time_and_the_largest_size() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    latest = clock.wall_ms() + MAX_DELAY_MS + CLOCKS_DIFFER_MS
    store.timer_bytes_left = 100
    check_due(store, clock, latest, 100)
    with pytest.raises(InvalidArgumentError, match="within 365 days"):
        check_due(store, clock, latest + 1, 100)
    with pytest.raises(DiskFullError, match="half of the disk budget"):
        check_due(store, clock, latest, 101)
    store.close()
