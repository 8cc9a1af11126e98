"""Writing to a store: a batch is in the log and in every projection, or the log fails."""

from pathlib import Path

import pytest

from litemq.errors import StoreFailedError
from litemq.storage.queues.queues import Queues
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.stores import open_store, send


def test_an_interrupt_during_a_write_stops_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    send(store, [Record("orders", b"x")] * 2)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Queues, "add_raw", interrupt)
    with pytest.raises(KeyboardInterrupt):
        send(store, [Record("orders", b"x")])
    monkeypatch.undo()
    with pytest.raises(StoreFailedError, match="interrupted"):
        send(store, [Record("orders", b"x")])
    store.close()
    again = open_store(tmp_path)
    send(again, [Record("orders", b"x")])
    assert again.state.end_offsets[QueueKey(16, 0)] == 4  # the interrupted record is in the log
    again.close()
