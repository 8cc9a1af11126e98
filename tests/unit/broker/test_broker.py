"""The broker: requests for groups, topics and look-ups."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.limits import BrokerLimits
from litemq.errors import InvalidArgumentError, TopicNotFoundError
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import (
    CommitRequest,
    CreateTopicRequest,
    FindRequest,
    GroupAssignment,
    JoinRequest,
    LeaveRequest,
    OffsetAnswer,
    OffsetAtTimeRequest,
    Opcode,
    QueueOffset,
    TopicAnswer,
    TopicRequest,
    TopicsAnswer,
)
from support.callers import Asking, Kind, records, running_broker

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


async def _join(asking: Asking, group: str = "billing") -> list[int]:
    answer = await asking.channel.ask(Opcode.JOIN_GROUP, JoinRequest(group=group, topic="orders").SerializeToString())
    return [queue.committed for queue in GroupAssignment.FromString(answer.header).queues]


async def _commit(asking: Asking, queue_id: int, offset: int, group: str = "billing") -> None:
    request = CommitRequest(group=group, topic="orders", offsets=[QueueOffset(queue_id=queue_id, offset=offset)])
    await asking.channel.ask(Opcode.COMMIT_OFFSETS, request.SerializeToString())


@KINDS
def test_a_group_continues_at_its_committed_offset(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker, "ann")
            await ann.create()
            await ann.send(records(5), 2)
            assert await _join(ann) == [-1, -1, -1, -1]
            await _commit(ann, 2, 3)
            with pytest.raises(InvalidArgumentError):
                await _commit(ann, 2, 6)
            await ann.channel.ask(Opcode.LEAVE_GROUP, LeaveRequest(group="billing", topic="orders").SerializeToString())
            bob = Asking(broker, "bob")
            assert await _join(bob) == [-1, -1, 3, -1]
            with pytest.raises(InvalidArgumentError, match="group"):
                await _join(bob, "no such name!")
            assert await _join(bob, "audit") == [-1, -1, -1, -1]

    asyncio.run(main())


@KINDS
def test_topics_are_created_described_and_deleted(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create("b", 2)
            await ann.create("a", 3)
            await ann.create("a", 3)
            with pytest.raises(InvalidArgumentError, match="3 queues"):
                await ann.create("a", 4)
            with pytest.raises(InvalidArgumentError):
                await ann.create("LITEMQ_SYS_X")
            listed = TopicsAnswer.FromString((await ann.channel.ask(Opcode.LIST_TOPICS, b"")).header)
            assert [(topic.topic, topic.queues) for topic in listed.topics] == [("a", 3), ("b", 2)]
            await ann.send(records(4, topic="b"), 1, topic="b")
            answer = await ann.channel.ask(Opcode.DESCRIBE_TOPIC, TopicRequest(topic="b").SerializeToString())
            assert [(queue.queue_id, queue.next) for queue in TopicAnswer.FromString(answer.header).queues] == [
                (0, 0),
                (1, 4),
            ]
            await ann.channel.ask(Opcode.DELETE_TOPIC, TopicRequest(topic="b").SerializeToString())
            with pytest.raises(TopicNotFoundError):
                await ann.channel.ask(Opcode.DESCRIBE_TOPIC, TopicRequest(topic="b").SerializeToString())
            with pytest.raises(InvalidArgumentError):
                await ann.channel.ask(Opcode.DELETE_TOPIC, TopicRequest(topic="LITEMQ_SYS_CONTROL").SerializeToString())

    asyncio.run(main())


@pytest.mark.parametrize("is_on", [False, True])
def test_topics_are_created_automatically_if_the_setting_is_on(is_on: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(
            "memory", tmp_path, BrokerLimits(auto_create_topics=is_on, default_queues=2)
        ) as broker:
            ann = Asking(broker)
            request = CreateTopicRequest(topic="orders", automatic=True).SerializeToString()
            if is_on:
                answer = TopicAnswer.FromString((await ann.channel.ask(Opcode.CREATE_TOPIC, request)).header)
                assert len(answer.queues) == 2
            else:
                with pytest.raises(TopicNotFoundError, match="auto_create"):
                    await ann.channel.ask(Opcode.CREATE_TOPIC, request)

    asyncio.run(main())


@KINDS
def test_messages_are_found_by_key_and_time(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            sent = await ann.send(records(3))
            answer = await ann.channel.ask(Opcode.FIND, FindRequest(topic="orders", key="m-1").SerializeToString())
            found = decode_record(answer.attachment)
            assert (found.record.message_id, found.stamp and found.stamp.queue_offset) == ("m-1", 1)
            none = await ann.channel.ask(Opcode.FIND, FindRequest(topic="orders", key="m-9").SerializeToString())
            assert none.attachment == b""
            for time, offset in ((sent.store_timestamp, 0), (sent.store_timestamp + 1, 3)):
                request = OffsetAtTimeRequest(topic="orders", queue_id=0, store_timestamp=time)
                answer = await ann.channel.ask(Opcode.OFFSET_AT_TIME, request.SerializeToString())
                assert OffsetAnswer.FromString(answer.header).offset == offset

    asyncio.run(main())
