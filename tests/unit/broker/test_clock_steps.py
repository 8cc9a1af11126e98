"""A whole broker on disk while the host's wall clock is set an hour forward or back.

Nothing happens at once, in either direction. Timers and jobs have their own property tests with
clock steps; here they share a broker with leases, retries, sessions, transactions and retention.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import (
    TX_COMMITTED,
    GroupAssignment,
    GroupHeartbeat,
    JoinRequest,
    Opcode,
    PutJobsRequest,
)
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.types import CatchUp, Record, StoredRecord
from support.callers import Asking, records
from support.leases import Got, Leaser
from support.on_loop import on_loop
from support.quick_disk import QuickDisk
from support.stores import CONFIG, read_bodies, send_bodies
from support.transactions import Producer, half, name_of

SECOND, HOUR = 1000, 3_600_000
LIMITS: Final = BrokerLimits(check_after_ms=30 * SECOND, check_every_ms=30 * SECOND, max_checks=5)
TRANSACTION: Final = name_of(1)
JOBS: Final = (CatchUp.ONE, CatchUp.ALL, CatchUp.SKIP)


class Host:
    """A host with a clock of its own, and a broker that is opened on its disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = FakeClock(1_700_000_040_000)  # a whole minute
        self.began = self.clock.wall_ms()

    @asynccontextmanager
    async def broker(self, config: StoreConfig = CONFIG) -> AsyncIterator[Broker]:
        self.time = BrokerClock(self.clock)
        self.store = DiskStore(self.directory, config, self.time, disk=QuickDisk(), host="here")
        self._broker = Broker(self.store, self.time, LIMITS)
        try:
            yield self._broker
            await self.settle()
        finally:
            self._broker.close()
            self.store.close()

    @property
    def now(self) -> int:
        """The broker's time since the test began (ms)."""
        return self.time.wall_ms() - self.began

    async def settle(self) -> None:
        """Do the work that is due, and wait until the log has it."""
        await self._broker.fire_due()
        await asyncio.gather(*self._broker.context.answers._tasks)
        self._broker.groups.end_overdue()
        await self.store.confirmed(self.store.log_end)

    async def until(self, moment: int) -> float:
        """Let time pass until ``moment`` of the broker's time; return the seconds that it took."""
        begin = self.clock.elapsed_ns()
        while self.now < moment:
            self.clock.advance(min(1.0, (moment - self.now) / 1000))
            await self.settle()
        return (self.clock.elapsed_ns() - begin) / 1e9

    def messages(self, topic: str) -> list[StoredRecord]:
        """Return the messages that consumers of ``topic`` can read."""
        facts = self.store.state.topic(topic)
        if facts is None:
            return []
        found: list[StoredRecord] = []
        for queue_id in range(facts.queues):
            data = bytes(self.store.read_queue(QueueKey(facts.topic_id, queue_id), 0, 10_000, 1 << 30))
            at = 0
            while at < len(data):
                found.append(decode_record(data, at))
                at += found[-1].size
        return found

    def ids(self, topic: str) -> list[str]:
        return sorted(stored.record.message_id for stored in self.messages(topic))

    def ticks(self, job: str) -> list[int]:
        """Return the ticks that a job has sent, in minutes since the test began."""
        ids = [each.split("@") for each in self.ids("ticks")]
        return sorted((int(tick) - self.began) // 60_000 for name, tick in ids if name == job)


class Load:
    """Clients of one broker: something of each kind that waits for a time."""

    def __init__(self, host: Host, broker: Broker) -> None:
        self.host = host
        self.worker, self.other = Leaser(broker, "worker"), Leaser(broker, "other")
        self.producer, self.member = Producer(broker, "producer"), Asking(broker, "member")
        self.held: list[Got] = []

    async def begin(self) -> None:
        """Everything is due 30 s from now, but for one timer that is due after half an hour."""
        for topic in ("orders", "reminders", "payments", "ticks", "queue"):
            await self.worker.create(topic, queues=1)
        await self.worker.send(records(3, producer_id=7))
        self.held = await self.worker.ask_for(lease_ms=30 * SECOND)
        assert await self.worker.fail(self.held[1], delay_ms=30 * SECOND) == []
        await self.remind("soon", 30 * SECOND)
        await self.remind("later", HOUR // 2)
        await self.producer.send_halves(half(TRANSACTION, topic="payments"), topic="payments")
        for rule in JOBS:
            job = JobDefinition(id=rule.name, topic="ticks", expression="0 * * * * *", catch_up=rule)
            request = PutJobsRequest(jobs=[job]).SerializeToString()
            await self.worker.channel.ask(Opcode.PUT_JOBS, request)
        request = JoinRequest(group="g", topic="queue", session_timeout_ms=40 * SECOND).SerializeToString()
        answer = await self.member.channel.ask(Opcode.JOIN_GROUP, request)
        self.session = GroupAssignment.FromString(answer.header)
        assert len(self.session.queues) == 1

    async def remind(self, name: str, due: int) -> None:
        """Send a delayed message that is due at ``due``, in ms since the test began."""
        record = encode_record(Record("reminders", b"", name, delay_time=self.host.began + due))
        await self.worker.send(record, topic="reminders")

    async def take(self, lease_ms: int) -> list[tuple[str, int]]:
        """Lease all available messages for the other consumer; return their ids and attempts."""
        taken: list[Got] = []
        while got := await self.other.ask_for(lease_ms=lease_ms):
            taken += got
        self.held += taken
        return sorted((one.message_id, one.tries) for one in taken)

    async def beat(self) -> None:
        """Send a heartbeat of the member; raises if its session has ended."""
        request = GroupHeartbeat(
            group="g", topic="queue", session=self.session.session, version=self.session.version
        ).SerializeToString()
        answer = GroupAssignment.FromString((await self.member.channel.ask(Opcode.GROUP_HEARTBEAT, request)).header)
        assert answer.unchanged

    async def check_nothing_happened(self) -> None:
        await self.host.settle()
        await self.beat()
        assert await self.take(HOUR) == []
        assert self.host.ids("reminders") == self.host.ids("ticks") == []
        assert (await self.producer.poll())[0] == []
        await self.check_a_repeated_send()

    async def check_a_repeated_send(self) -> None:
        """The broker knows the sequences of a producer, whatever the clock says."""
        answer = await self.worker.send(records(3, producer_id=7))
        assert [each.queue_offset for each in answer.earlier] == [0, 1, 2]

    @property
    def checks(self) -> int:
        known = self.host.store.state.parts.halves.get(TRANSACTION)
        assert known is not None
        return known.checks


@pytest.mark.parametrize("step", [3600, -3600])
@on_loop
async def test_everything_comes_in_time_although_the_clock_is_set(tmp_path: Path, step: float) -> None:
    """Work that is due within a minute of the step is never early, and late by a ninth at most."""
    host = Host(tmp_path)
    async with host.broker() as broker:
        load = Load(host, broker)
        await load.begin()
        host.clock.advance(1)
        host.clock.step_wall(step)
        for _ in range(5):
            await load.check_nothing_happened()
            host.clock.advance(5)
        await load.check_nothing_happened()
        assert host.now < 30 * SECOND
        assert await host.until(30 * SECOND) <= 30 * 10 / 9 - 26 + 0.01
        await load.beat()
        assert host.ids("reminders") == ["soon"]
        assert load.checks == 1
        await host.until(30 * SECOND + 10)  # alarms ring in slots
        assert await load.worker.ack(load.held[0]) == []  # its lease is over, and no other consumer has the message
        assert await load.take(HOUR) == [("m-1", 2), ("m-2", 2)]
        assert await load.producer.commit(TRANSACTION) == [TX_COMMITTED]


@on_loop
async def test_after_a_minute_the_broker_follows_a_step_forward(tmp_path: Path) -> None:
    """The missed hour is caught up by each job's rule; sessions and checks do not count it.

    A correction afterwards repeats nothing, and the clock runs more slowly instead of back.
    """
    host = Host(tmp_path)
    async with host.broker() as broker:
        load = Load(host, broker)
        await load.begin()
        await host.until(31 * SECOND)
        checked = load.checks
        assert await load.take(600 * SECOND) == [("m-0", 2), ("m-1", 2), ("m-2", 2)]
        host.clock.step_wall(3600)
        for _ in range(61):
            assert host.ids("reminders") == ["soon"]
            host.clock.advance(1)
            await load.beat()
            await host.settle()
        assert host.now == HOUR + 92 * SECOND
        assert host.ids("reminders") == ["later", "soon"]
        assert host.ticks("SKIP") == [1]
        assert host.ticks("ONE") == [1, 61]
        assert host.ticks("ALL") == list(range(1, 62))
        assert load.checks - checked == 3, "one check every 30 s, and one for the whole hour"
        # The leases of ten minutes are over by the broker's clock. They count until another
        # consumer has the messages.
        assert await load.other.ack(*load.held[3:]) == []

        host.clock.step_wall(-3600)
        before = {rule.name: host.ticks(rule.name) for rule in JOBS}
        for _ in range(120):
            host.clock.advance(5)
            await host.settle()
        assert host.now == HOUR + 92 * SECOND + 540 * SECOND
        for rule in JOBS:
            assert host.ticks(rule.name) == before[rule.name] + list(range(62, 71))
        await load.check_a_repeated_send()
        # A producer whose clock is right names a time that is over for the broker.
        await load.remind("by the right clock", host.clock.wall_ms() - host.began + 600 * SECOND)
        assert "by the right clock" in host.ids("reminders")


@on_loop
async def test_a_restart_after_a_step_back(tmp_path: Path) -> None:
    """The new broker starts with the host's time; store times do not fall, and no tick is repeated.

    Leases, retries and checks go on with the time of the log: late by a ninth of what was left.
    """
    host = Host(tmp_path)
    async with host.broker() as broker:
        load = Load(host, broker)
        await load.begin()
        await host.until(29 * SECOND)
        await load.other.send(records(1, first=3))  # a later store time than that of all others
    host.clock.step_wall(-3600)
    async with host.broker() as broker:
        again = Load(host, broker)
        assert host.now == 29 * SECOND - HOUR
        await again.worker.send(records(1, first=4))
        stamps = [stored.stamp for stored in host.messages("orders")]
        times = [0 if stamp is None else stamp.store_timestamp for stamp in stamps]
        assert times == sorted(times)
        await again.check_a_repeated_send()
        assert await again.take(2 * HOUR) == [("m-3", 1), ("m-4", 1)]
        assert await again.worker.ack(load.held[0]) == []  # a lease outlives its broker
        host.clock.advance(1.1)
        await host.settle()
        assert (await again.take(HOUR), again.checks) == ([], 0)
        host.clock.advance(0.1)
        await host.settle()
        assert (await again.take(HOUR), again.checks) == ([("m-1", 2), ("m-2", 2)], 1)
        assert host.ids("reminders") == host.ids("ticks") == []
        await host.until(30 * SECOND + 10)
        assert host.ids("reminders") == ["soon"]
        await host.until(3 * 60 * SECOND)
        for rule in JOBS:
            assert host.ticks(rule.name) == [1, 2, 3]


@on_loop
async def test_retention_follows_a_step_forward_after_a_minute(tmp_path: Path) -> None:
    """A step of an hour costs an hour of messages, or nothing if it is corrected in time."""
    host = Host(tmp_path)
    config = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, checkpoint_interval_ms=0, retention_ms=2 * HOUR)
    async with host.broker(config):
        host.store.create_topic("orders", 1)
        retain = host.store._maintenance._retain_as_configured

        def oldest() -> int:
            """Return the first quarter of an hour whose messages are kept."""
            topic = host.store.state.topic("orders")
            assert topic is not None
            first = host.store.state.start_offsets.get(QueueKey(topic.topic_id, 0), 0)
            return int(read_bodies(host.store, "orders", first=first)[0].split()[0])

        for quarter in range(8):
            send_bodies(host.store, "orders", [b"%d " % quarter + bytes(3500)] * 40)
            host.clock.advance(900)
        retain()
        assert oldest() == 0
        host.clock.step_wall(3600)
        for _ in range(59):
            host.clock.advance(1)
            retain()
        assert oldest() == 0
        host.clock.step_wall(-3600)  # corrected
        host.clock.advance(1)
        retain()
        assert oldest() == 0
        host.clock.step_wall(3600)
        for _ in range(61):
            host.clock.advance(1)
            retain()
        assert oldest() == 4, "an hour of messages that are not yet two hours old, and not one more"
        host.clock.step_wall(-3600)
        host.clock.advance(600)
        retain()
        assert oldest() == 4
