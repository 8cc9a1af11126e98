"""Due times: a year ahead at most, as the broker's clock says, with a tolerance for the client's."""

import pytest

from litemq.broker.admission.due_time import check_due
from litemq.clock import FakeClock
from litemq.errors import DiskFullError, InvalidArgumentError
from litemq.storage.memory_store import MemoryStore
from litemq.types import CLOCKS_DIFFER_MS, MOST_DELAY_MS


def test_the_latest_due_time_and_the_largest_size() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    latest = clock.wall_ms() + MOST_DELAY_MS + CLOCKS_DIFFER_MS
    store.timer_room = 100
    check_due(store, clock, latest, 100)
    with pytest.raises(InvalidArgumentError, match="within 365 days"):
        check_due(store, clock, latest + 1, 100)
    with pytest.raises(DiskFullError, match="half the disk"):
        check_due(store, clock, latest, 101)
    store.close()
