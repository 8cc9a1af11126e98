"""The trace recorder: the events of messages, written asynchronously."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.broker.tracing import recorder as trace_module
from litemq.broker.tracing.events import TRACE_TOPIC, TraceEvent, TraceSampler, decode_events
from litemq.clock import FakeClock
from litemq.proto.wire_pb2 import CommitRequest, GroupAssignment, JoinRequest, Opcode, PullRequest, QueueOffset
from litemq.storage.state import QueueKey
from litemq.storage.state.topics import TRACE_TOPIC_ID
from litemq.types import DeadReason
from support.callers import records, running_broker
from support.leases import Leaser

TRACE_QUEUE = QueueKey(TRACE_TOPIC_ID, 0)


@pytest.fixture(autouse=True)
def _flush_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush only on demand, so that results do not depend on time."""
    monkeypatch.setattr(trace_module, "_EVERY_SECONDS", 3600)


class Desk:
    """A traced broker with a topic of one queue."""

    def __init__(self, broker: Broker, clock: FakeClock) -> None:
        self.broker = broker
        self.clock = clock
        self.worker = Leaser(broker, "worker-1")

    async def events(self) -> list[TraceEvent]:
        """Return all events written so far."""
        store = self.broker.context.store
        await store.confirmed(store.log_end)  # only confirmed messages are traced
        self.broker._trace_recorder.flush()
        await store.confirmed(store.log_end)
        return [
            event for number in range(store.state.end_offsets.get(TRACE_QUEUE, 0)) for event in self._record(number)
        ]

    def _record(self, number: int) -> list[TraceEvent]:
        store = self.broker.context.store
        log_offset = int(store.read_entries(TRACE_QUEUE, number, 1)["log_offset"][0])
        record = store.read_record(log_offset).record
        assert record.topic == TRACE_TOPIC
        return decode_events(record.body)


def _with(path: Path, test: Callable[[Desk], Awaitable[None]], limits: BrokerLimits) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", path, limits, clock) as broker:
            desk = Desk(broker, clock)
            await desk.worker.create(queues=1)
            await test(desk)

    asyncio.run(main())


def _short(events: list[TraceEvent]) -> list[tuple[str, str, int]]:
    return [(event.event, event.message_id, event.offset) for event in events]


def test_the_events_of_leased_messages(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        await desk.worker.send(records(3))
        first, second, third = await desk.worker.ask_for(3, lease_ms=60_000)
        await desk.worker.ack(first)
        await desk.worker.fail(second, delay_ms=2_000, error="ValueError: bad")
        await desk.worker.fail(third, final=True, reason=DeadReason.CONSUME_ERROR, error="KeyError: x")
        events = await desk.events()
        assert _short(events) == [
            *(("stored", f"m-{number}", number) for number in range(3)),
            *(("received", f"m-{number}", number) for number in range(3)),
            ("acked", "m-0", 0),
            ("failed", "m-1", 1),
            ("rejected", "m-2", 2),
            ("died", "m-2", -1),
        ]
        assert {(event.group, event.client) for event in events[3:]} == {("billing", "worker-1")}
        assert (events[9].topic, events[9].tries, events[9].detail) == ("orders", 1, "consume_error KeyError: x")
        assert events[7].detail == "ValueError: bad"
        desk.clock.advance(3)
        await desk.broker.fire_due()
        (again,) = await desk.worker.ask_for(3, lease_ms=60_000, wait_ms=60_000)
        await desk.worker.ack(again)
        later = (await desk.events())[10:]
        assert [(event.event, event.message_id, event.detail) for event in later] == [
            ("retried", "m-1", "in the retry queue"),
            ("received", "m-1", "in the retry queue"),
            ("acked", "m-1", "in the retry queue"),
        ]

    _with(tmp_path, test, BrokerLimits(trace="all"))


def test_the_events_of_messages_in_queue_mode(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        channel = desk.worker.channel
        await desk.worker.send(records(4))
        join = JoinRequest(group="billing", topic="orders")
        assigned = GroupAssignment.FromString((await channel.ask(Opcode.JOIN_GROUP, join.SerializeToString())).header)
        generation = next(queue.generation for queue in assigned.queues if not queue.is_retry)
        pull = PullRequest(topic="orders", offset=1, max_messages=2, group="billing", generation=generation)
        await channel.ask(Opcode.PULL, pull.SerializeToString())
        for offset in (2, 2, 3):
            commit = CommitRequest(
                group="billing", topic="orders", offsets=[QueueOffset(offset=offset, generation=generation)]
            )
            await channel.ask(Opcode.COMMIT_OFFSETS, commit.SerializeToString())
        await channel.ask(
            Opcode.PULL, PullRequest(topic="orders", offset=0, max_messages=9).SerializeToString()
        )  # for no group
        events = [event for event in await desk.events() if event.event != "stored"]
        assert _short(events) == [
            ("received", "m-1", 1),
            ("received", "m-2", 2),
            ("acked", "m-1", 1),
            ("acked", "m-2", 2),
        ]

    _with(tmp_path, test, BrokerLimits(trace="all"))


def test_a_sampled_trace_has_all_events_of_some_messages(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        await desk.worker.send(records(50))
        await desk.worker.ack(*await desk.worker.ask_for(50, lease_ms=60_000))
        events = await desk.events()
        chosen = [f"m-{number}" for number in range(50) if TraceSampler("sampled", 5).takes(f"m-{number}")]
        assert 0 < len(chosen) < 50
        for what in ("stored", "received", "acked"):
            assert [event.message_id for event in events if event.event == what] == chosen

    _with(tmp_path, test, BrokerLimits(trace="sampled", trace_one_in=5))


def test_dropped_events_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(desk: Desk) -> None:
        await desk.worker.send(records(30))
        monkeypatch.setattr(trace_module, "_MAX_WAITING", 10)
        events = await desk.events()
        assert _short(events)[:10] == [("stored", f"m-{number}", number) for number in range(10)]
        assert [(event.event, event.detail) for event in events[10:]] == [
            ("missed", "20 events were dropped: they arrived faster than they could be written")
        ]

    _with(tmp_path, test, BrokerLimits(trace="all"))


def test_a_trace_that_is_off_writes_nothing(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        await desk.worker.send(records(3))
        await desk.worker.ack(*await desk.worker.ask_for(3))
        assert await desk.events() == []
        assert desk.broker._traced is None

    _with(tmp_path, test, BrokerLimits())


def test_close_writes_waiting_events(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("memory", tmp_path, BrokerLimits(trace="all"), clock) as broker:
            worker = Leaser(broker, "worker-1")
            await worker.create(queues=1)
            await worker.send(records(2))
            broker.close()
            assert broker.context.store.state.end_offsets[TRACE_QUEUE] == 1

    asyncio.run(main())
