"""State machines of a broker: any requests in any order; its state is the same after each stop."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey
from litemq.types import Record, StoredRecord
from support.quick_disk import QuickDisk
from support.replicas import assert_follower_agrees

__all__ = ["BrokerMachine"]

T = TypeVar("T")
_SMALL = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=9, index_entries=99, checkpoint_interval_ms=0
)


class BrokerMachine(RuleBasedStateMachine):
    """A broker with a topic ``orders``, over a store in memory or on disk.

    Each run begins with ``open_first``.
    """

    is_on_disk = False
    limits: BrokerLimits | None = None
    queues = 2

    def open_first(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="litemq-machine-"))
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.offsets = [0] * self.queues  # up to where each queue was read
        self._open()

    def meet(self) -> None:
        """A new broker has started: replace the clients, too."""
        raise NotImplementedError

    def copy_the_rest(self) -> None:
        """Let the broker do its background work, and check the result."""
        raise NotImplementedError

    def ask(self, request: Coroutine[None, None, T]) -> T:
        return self.runner.run(request)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.copy_the_rest()
            self._stop()
            if isinstance(self.store, DiskStore):
                assert_follower_agrees(self.store)
                self.store.abandon()
            self.runner.close()
            shutil.rmtree(self.folder)

    def _open(self) -> None:
        self.store: DiskStore | MemoryStore = self._on_disk() if self.is_on_disk else MemoryStore(self.clock)
        self.runner.run(self._start())

    def _on_disk(self) -> DiskStore:
        return DiskStore(self.folder, _SMALL, self.clock, disk=QuickDisk(), host="here")

    async def _start(self) -> None:
        self.broker = Broker(self.store, self.clock, self.limits)
        self.meet()

    def _stop(self) -> None:
        self.runner.run(self._close())

    async def _close(self) -> None:
        self.broker.close()
        await asyncio.gather(*self.broker.context.answers._tasks, return_exceptions=True)

    # Stops ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_on_disk)
    @rule(lost=st.sampled_from(["nothing", "state.db", "consumequeue"]))
    def crash(self, lost: str) -> None:
        assert isinstance(self.store, DiskStore)
        self.store.wait_confirmed(self.store.log_end)
        self._stop()
        before = self._rows()
        self.store.abandon()
        if lost == "state.db":
            for path in self.folder.glob("state.db*"):
                path.unlink()
        elif lost == "consumequeue":
            shutil.rmtree(self.folder / "consumequeue")
            (self.folder / "checkpoint").unlink()
        self.store = self._on_disk()
        assert self._rows() == before
        self.runner.run(self._start())

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def restart(self) -> None:
        self._stop()
        self.store.close()
        self._open()

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def checkpoint(self) -> None:
        assert isinstance(self.store, DiskStore)
        self.store.checkpoint()

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def snapshot(self) -> None:
        assert isinstance(self.store, DiskStore)
        self.store.snapshot()

    def drop_all_but_the_end(self) -> None:
        """Run retention: it deletes everything but the end of the log."""
        assert isinstance(self.store, DiskStore)
        filler = encode_record(Record("filler", bytes(3500)))
        topic = self.store.create_topic("filler", 1)
        for _ in range(5):
            self.store.wait_confirmed(self.store.append(bytearray(filler * 8), topic.topic_id, 0).end)
        self.store.retain(max_bytes=70_000)

    def _rows(self) -> list[bytes]:
        return [row.SerializeToString(deterministic=True) for row in self.store.state.rows()]

    # Reading --------------------------------------------------------------------------------------

    def read_on(self, queue_id: int) -> list[StoredRecord]:
        """Return the new messages of a queue since the last call."""
        topic = self.store.state.topic("orders")
        if topic is None:
            return []
        self.store.wait_confirmed(self.store.log_end)
        key = QueueKey(topic.topic_id, queue_id)
        self.offsets[queue_id] = max(self.offsets[queue_id], self.store.state.start_offsets.get(key, 0))
        data = self.store.read_queue(key, self.offsets[queue_id], 10_000, 1 << 30)
        found: list[StoredRecord] = []
        at = 0
        while at < len(data):
            found.append(decode_record(data, at, limits=STORED_LIMITS))
            at += found[-1].size
        self.offsets[queue_id] += len(found)
        return found
