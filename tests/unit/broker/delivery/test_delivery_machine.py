"""Delivery under any order of requests, time and stops.

Every message ends once, acknowledged or as a dead letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from litemq.broker.broker import Broker
from litemq.clock import FakeClock
from litemq.errors import LeaseLostError
from litemq.format.dead_letters import history_from_properties, original_record
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey, State
from litemq.types import DeadReason
from support.callers import records
from support.histories import is_deep
from support.leases import Got, Leaser
from support.replicas import assert_follower_agrees

T = TypeVar("T")

MAX_RETRIES = 2
TOPIC = QueueKey(16, 0)


class Deliveries(RuleBasedStateMachine):
    """Two consumers of a group, which may be late, and a broker that may stop at any time."""

    on_disk: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._broker: Broker | None = None
        self._clock = FakeClock()
        self._sent = 0
        self._expire_at: dict[str, int] = {}
        self._tries: dict[str, int] = {}
        self._held: dict[str, Got] = {}  # the latest lease of each message
        self._until: dict[str, int] = {}  # no other consumer may have it before
        self._late: list[Got] = []
        self._done: set[str] = set()

    def _open(self) -> MemoryStore | DiskStore:
        if not self.on_disk:
            return MemoryStore(self._clock)
        return DiskStore(
            Path(self._directory.name), StoreConfig(segment_bytes=8 << 20, checkpoint_interval_ms=0), self._clock
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    async def _begin(self) -> None:
        self._broker = Broker(self._store, self._clock)
        self._ann = Leaser(self._broker)

    async def _settled(self) -> None:
        """Wait until all records are confirmed and all requests are answered."""
        assert self._broker is not None
        await self._broker.fire_due()
        await self._store.confirmed(self._store.log_end)
        await asyncio.sleep(0)

    @initialize()
    def begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._directory = TemporaryDirectory()
        self._store = self._open()
        self._run(self._begin())
        self._run(self._ann.create(queues=2))

    @rule(count=st.integers(1, 4), queue_id=st.integers(0, 1), ttl=st.sampled_from([0, 0, 0, 700]))
    def send(self, count: int, queue_id: int, ttl: int) -> None:
        expire_at = self._clock.wall_ms() + ttl if ttl else 0
        self._run(self._ann.send(records(count, first=self._sent, expire_at=expire_at), queue_id))
        for number in range(self._sent, self._sent + count):
            self._expire_at[f"m-{number}"] = expire_at
        self._sent += count

    @rule(most=st.integers(1, 5), lease_ms=st.sampled_from([100, 1000]))
    def lease(self, most: int, lease_ms: int) -> None:
        self._run(self._settled())
        for got in self._run(self._ask(most, lease_ms)):
            self._take(got, self._clock.wall_ms() + lease_ms)
        self._run(self._settled())
        for name in (
            self._dead().keys() & self._held.keys()
        ):  # the lease had ended, and it was too old, or tried too often
            assert self._until[name] <= self._clock.wall_ms()
            self._late.append(self._held.pop(name))

    async def _ask(self, most: int, lease_ms: int) -> list[Got]:
        return await self._ann.ask_for(most, lease_ms=lease_ms, max_retries=MAX_RETRIES)

    def _take(self, got: Got, until: int) -> None:
        name, now = got.message_id, self._clock.wall_ms()
        assert name not in self._done, "what was settled came again"
        assert self._until.get(name, 0) <= now, "two have it at once"
        assert got.tries > self._tries.get(name, 0), "the count does not rise"
        assert got.tries <= MAX_RETRIES + 1
        expire_at = self._expire_at[name]
        assert not expire_at or expire_at > now, "it is too old"
        if name in self._held:
            self._late.append(self._held[name])
        self._tries[name] = got.tries
        self._held[name] = got
        self._until[name] = until

    def _chosen(self, which: list[int]) -> list[Got]:
        held = list(self._held.values())
        return list({held[number % len(held)].message_id: held[number % len(held)] for number in which}.values())

    @precondition(lambda self: self._held)
    @rule(which=st.lists(st.integers(0, 20), min_size=1, max_size=4))
    def ack(self, which: list[int]) -> None:
        chosen = self._chosen(which)
        assert self._run(self._ann.ack(*chosen)) == []
        for got in chosen:
            self._end(got)

    def _end(self, got: Got) -> None:
        del self._held[got.message_id]
        self._done.add(got.message_id)

    @precondition(lambda self: self._held)
    @rule(
        which=st.lists(st.integers(0, 20), min_size=1, max_size=3),
        delay_ms=st.sampled_from([0, 50, 500]),
        final=st.booleans(),
    )
    def fail(self, which: list[int], delay_ms: int, final: bool) -> None:
        for got in self._chosen(which):
            assert self._run(self._ann.fail(got, delay_ms=delay_ms, max_retries=MAX_RETRIES, final=final)) == []
            del self._held[got.message_id]
            self._late.append(got)
            self._until[got.message_id] = self._clock.wall_ms() + delay_ms

    @precondition(lambda self: self._held)
    @rule(which=st.lists(st.integers(0, 20), min_size=1, max_size=3), lease_ms=st.sampled_from([100, 1000]))
    def extend(self, which: list[int], lease_ms: int) -> None:
        chosen = self._chosen(which)
        assert self._run(self._ann.extend(*chosen, lease_ms=lease_ms)) == []
        for got in chosen:
            self._until[got.message_id] = max(self._until[got.message_id], self._clock.wall_ms() + lease_ms)

    @precondition(lambda self: self._late)
    @rule(number=st.integers(0, 20))
    def ack_too_late(self, number: int) -> None:
        late = self._late[number % len(self._late)]
        assert self._run(self._ann.ack(late)) == [(late.offset, LeaseLostError.code)]
        assert self._run(self._ann.extend(late)) == [(late.offset, LeaseLostError.code)]

    @rule(milliseconds=st.sampled_from([20, 60, 200, 1200]))
    def wait(self, milliseconds: int) -> None:
        self._clock.advance(milliseconds / 1000)
        self._run(self._settled())

    @rule(abandon=st.booleans())
    def restart(self, abandon: bool) -> None:
        self._run(self._store.confirmed(self._store.log_end))
        self._run(self._close())
        if isinstance(self._store, DiskStore):
            self._store.abandon() if abandon else self._store.close()
            self._store = self._open()
        else:
            self._store.state = State.from_rows(list(self._store.state.rows()))
        self._run(self._begin())
        now = self._clock.wall_ms()
        # What was extended by less than half a lease was not written down.
        for name, until in self._until.items():
            self._until[name] = min(until, now)

    async def _close(self) -> None:
        assert self._broker is not None
        self._broker.close()
        self._ann.channel.close()
        await asyncio.sleep(0)

    @invariant()
    def counts_add_up(self) -> None:
        if self._broker is None:
            return
        state = self._store.state
        progress = state.parts.progress
        for (group, key), offset in progress.offsets.items():
            queue = progress.queue(group, key)
            assert 0 <= offset <= state.end_offsets.get(key, 0)
            if queue is not None:
                assert all(begin > offset for begin, _ in queue.done)
                assert all(lease.begin >= offset for lease in queue.leases)

    def _dead(self) -> dict[str, DeadReason]:
        facts = self._store.state.topic("%DLQ%orders")
        if facts is None:
            return {}
        key = QueueKey(facts.topic_id, 0)
        dead: dict[str, DeadReason] = {}
        for offset in range(self._store.state.end_offsets.get(key, 0)):
            dead_letter = decode_record(bytes(self._store.read_queue(key, offset, 1)), limits=STORED_LIMITS).record
            name = original_record(dead_letter).record.message_id
            assert name not in dead, "it died twice"
            dead[name] = history_from_properties(dead_letter.properties).reason
        return dead

    def teardown(self) -> None:
        if self._broker is None:
            return
        try:
            self._drain()
        finally:
            self._run(self._close())
            if isinstance(self._store, DiskStore):
                assert_follower_agrees(self._store)
                self._store.abandon()
            self._directory.cleanup()
            self._loop.close()

    def _drain(self) -> None:
        """Consume until every message is acknowledged or a dead letter."""
        for _ in range(MAX_RETRIES + 3):
            self._clock.advance(10)
            self._run(self._settled())
            for got in self._run(self._ask(1000, 1000)):
                self._take(got, 0)
                assert self._run(self._ann.ack(got)) == []
                self._end(got)
        self._run(self._settled())
        dead = self._dead()
        assert not self._done & set(dead), "done, and dead"
        assert self._done | set(dead) == {f"m-{number}" for number in range(self._sent)}
        for name, reason in dead.items():
            assert reason is not DeadReason.TTL_EXPIRED or self._expire_at[name]
        assert not list(self._store.state.parts.tries)


class DeliveriesOnDisk(Deliveries):
    """The same on disk: a stop loses everything but the files."""

    on_disk = True


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=1000 if is_deep() else 300, stateful_step_count=25, deadline=None)
TestDeliveriesOnDisk = DeliveriesOnDisk.TestCase
TestDeliveriesOnDisk.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
