"""The backlog limit, and the messages that members of groups do not see."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock
from litemq.errors import BacklogFullError
from litemq.format.dead_letters import history_from_properties
from litemq.format.limits import STORED_LIMITS
from litemq.format.messages import decode_messages
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import CreateTopicRequest, JoinRequest, Opcode, PullAnswer, PullRequest, TopicSettings
from litemq.storage.state import QueueKey
from litemq.storage.store import Store
from litemq.types import DeadReason
from support.callers import Kind, records, running_broker
from support.leases import Leaser

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


async def _create(ann: Leaser, **settings: int) -> None:
    request = CreateTopicRequest(topic="orders", queues=1, settings=TopicSettings(**settings))  # type: ignore[arg-type]
    await ann.channel.ask(Opcode.CREATE_TOPIC, request.SerializeToString())


async def _dead(store: Store) -> list[tuple[str, DeadReason, str]]:
    await store.confirmed(store.log_end)
    topic = store.state.topic("%DLQ%orders")
    key = QueueKey(0 if topic is None else topic.topic_id, 0)
    dead_letters = [
        decode_record(bytes(store.read_queue(key, at, 1)), limits=STORED_LIMITS)
        for at in range(store.state.end_offsets.get(key, 0))
    ]
    histories = [
        (dead_letter.record.message_id, history_from_properties(dead_letter.record.properties))
        for dead_letter in dead_letters
    ]
    return [(name, history.reason, history.group) for name, history in histories]


@pytest.mark.parametrize("by_topic", [True, False])
def test_a_full_queue_refuses_until_the_slowest_group_has_caught_up(by_topic: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(
            "memory", tmp_path, BrokerLimits(max_backlog=10_000_000 if by_topic else 10)
        ) as broker:
            ann = Leaser(broker)
            await _create(ann, **({"max_backlog": 10} if by_topic else {}))
            await ann.send(records(30))  # no group reads it, so none is behind
            await ann.ask_for(1, group="audit", from_latest=True)
            got = await ann.ask_for(100, from_latest=False)
            await ann.ack(*got[:-5])
            await ann.send(records(5, first=30))
            with pytest.raises(BacklogFullError, match="--max-backlog NUMBER"):
                await ann.send(records(1, first=35))
            await ann.ack(*got[-5:-1])
            await ann.send(records(4, first=35))
            with pytest.raises(BacklogFullError):
                await ann.send(records(1, first=39))
            assert await _dead(broker.context.store) == []

    asyncio.run(main())


@KINDS
def test_messages_beyond_the_limit_become_dead_letters_of_the_slow_group(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Leaser(broker)
            await _create(ann, max_backlog=3, backlog_dead_letters=True)
            slow = await ann.ask_for(1, group="slow")
            fast = await ann.ask_for(1, group="fast")
            assert slow == fast == []
            await ann.send(records(2))
            await ann.ack(*await ann.ask_for(group="fast"), group="fast")
            await ann.send(records(3, first=2))
            store = broker.context.store
            assert await _dead(store) == [(f"m-{number}", DeadReason.QUEUE_FULL, "slow") for number in (3, 4)]
            assert [one.message_id for one in await ann.ask_for(group="fast")] == ["m-2", "m-3", "m-4"]
            got = await ann.ask_for(group="slow")
            assert [one.message_id for one in got] == ["m-0", "m-1", "m-2"]
            assert await ann.ack(*got, group="slow") == []
            assert store.state.group_offsets["slow", QueueKey(16, 0)] == 5

    asyncio.run(main())


@KINDS
def test_members_do_not_see_expired_or_consumed_messages(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await _create(ann, ttl_ms=5000)
            soon = clock.wall_ms() + 100
            await ann.send(records(1) + records(1, first=1, expire_at=soon) + records(2, first=2))
            joined = JoinRequest(group="billing", topic="orders").SerializeToString()
            await ann.channel.ask(Opcode.JOIN_GROUP, joined)

            async def pull(offset: int, group: str = "billing") -> tuple[list[int], int]:
                request = PullRequest(topic="orders", offset=offset, max_messages=10, group=group)
                answer = await ann.channel.ask(Opcode.PULL, request.SerializeToString())
                found = [message.queue_offset for message in decode_messages(answer.attachment)]
                return found, PullAnswer.FromString(answer.header).next_offset

            assert (await pull(0))[0] == [0, 1, 2, 3]
            clock.advance(1)
            assert (await pull(0))[0] == [0, 2, 3]
            assert (await pull(0))[0] == [0, 2, 3]
            assert (await pull(0, group=""))[0] == [0, 1, 2, 3], "who only looks sees everything"
            assert await _dead(broker.context.store) == [("m-1", DeadReason.TTL_EXPIRED, "billing")]
            clock.advance(10)
            assert await pull(0) == ([], 4)
            assert len(await _dead(broker.context.store)) == 4
            assert broker.context.store.state.group_offsets["billing", QueueKey(16, 0)] == 4

    asyncio.run(main())
