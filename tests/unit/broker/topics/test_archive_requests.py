"""Reports of archives: validated, stored and described."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from litemq.errors import InvalidArgumentError, LiteMQError, TopicNotFoundError
from litemq.proto.wire_pb2 import (
    ArchiveAnswer,
    ArchivedQueue,
    ArchivedThroughRequest,
    Opcode,
    PullAnswer,
    PullRequest,
    ResetAnswer,
    ResetRequest,
    TopicAnswer,
    TopicRequest,
)
from litemq.storage.state import QueueKey
from support.callers import Asking, Kind, records, running_broker

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


async def _report(
    asking: Asking, queues: dict[int, int], location: str = "/a", topic: str = "orders", **more: Any
) -> None:
    archived = [ArchivedQueue(queue_id=queue_id, next=offset) for queue_id, offset in queues.items()]
    request = ArchivedThroughRequest(topic=topic, location=location, queues=archived, **more)
    await asking.channel.ask(Opcode.ARCHIVED_THROUGH, request.SerializeToString())


async def _describe(asking: Asking) -> ArchiveAnswer:
    answer = await asking.channel.ask(Opcode.DESCRIBE_ARCHIVE, TopicRequest(topic="orders").SerializeToString())
    return ArchiveAnswer.FromString(answer.header)


@KINDS
def test_an_archive_reports_and_is_described(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create(queues=2)
            assert await _describe(ann) == ArchiveAnswer(topic_id=16)
            await ann.send(records(5))
            await _report(ann, {0: 3})
            description = await _describe(ann)
            assert (description.location, description.topic_id, description.reported_at > 0) == ("/a", 16, True)
            assert [(queue.queue_id, queue.begin, queue.next) for queue in description.queues] == [(0, 0, 3)]
            log_end = broker.context.store.log_end
            await _report(ann, {0: 3})
            await _report(ann, {0: 1})
            assert broker.context.store.log_end == log_end, "what is known already is not written again"
            await _report(ann, {0: 5, 1: 0})
            description = await _describe(ann)
            assert [(queue.queue_id, queue.next) for queue in description.queues] == [(0, 5), (1, 0)]
        if kind == "disk":
            async with running_broker(kind, tmp_path) as broker:
                assert await _describe(Asking(broker)) == description, "it is there after a restart"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("queues", "location", "topic", "error"),
    [
        ({0: 6}, "/a", "orders", "the queue ends at 5"),
        ({2: 0}, "/a", "orders", "2 queues"),
        ({0: -1}, "/a", "orders", "out of range"),
        ({0: 1}, "", "orders", "location="),
        ({0: 1}, "/a\n", "orders", "location="),
        ({0: 1}, "x" * 1025, "orders", "location="),
        ({0: 1}, "s3://ann:secret@bucket/table", "orders", "password"),
        ({0: 1}, "/a", "others", "does not exist"),
        ({0: 1}, "/a", "LITEMQ_SYS_CONTROL", "the broker's own"),
    ],
)
def test_invalid_reports_are_refused(
    queues: dict[int, int], location: str, topic: str, error: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create(queues=2)
            await ann.send(records(5))
            with pytest.raises(LiteMQError, match=error) as caught:
                await _report(ann, queues, location, topic)
            assert isinstance(caught.value, (InvalidArgumentError, TopicNotFoundError))
            assert "secret" not in str(caught.value)
            twice = ArchivedThroughRequest(
                topic="orders", location="/a", queues=[ArchivedQueue(queue_id=0, next=1)] * 2
            )
            with pytest.raises(InvalidArgumentError, match="at most once"):
                await ann.channel.ask(Opcode.ARCHIVED_THROUGH, twice.SerializeToString())
            assert not (await _describe(ann)).location

    asyncio.run(main())


def test_a_topic_has_one_archive_unless_another_replaces_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create(queues=2)
            await ann.send(records(5))
            await _report(ann, {0: 5})
            with pytest.raises(InvalidArgumentError, match="is already archived in /a"):
                await _report(ann, {0: 5}, "/b")
            await _report(ann, {0: 2}, "/b", replaces=True)
            description = await _describe(ann)
            assert (description.location, [queue.next for queue in description.queues]) == ("/b", [2])

    asyncio.run(main())


def test_archived_offsets_count_as_the_oldest(tmp_path: Path) -> None:
    """The oldest offset is the archive's: a group may be reset to it."""

    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create(queues=1)
            await ann.send(records(10))
            await _report(ann, {0: 8})
            broker.context.store.state.start_offsets[QueueKey(16, 0)] = 6  # retention took the others
            described = await ann.channel.ask(Opcode.DESCRIBE_TOPIC, TopicRequest(topic="orders").SerializeToString())
            (queue,) = TopicAnswer.FromString(described.header).queues
            assert (queue.least, queue.archived_from, queue.next) == (6, 0, 10)
            pulled = await ann.channel.ask(
                Opcode.PULL, PullRequest(topic="orders", offset=6, max_messages=1).SerializeToString()
            )
            assert not PullAnswer.FromString(pulled.header).range.HasField("archived_from"), (
                "pulls are many, and are not description"
            )
            request = ResetRequest(group="late", topic="orders", to="earliest")
            answer = await ann.channel.ask(Opcode.PLAN_RESET, request.SerializeToString())
            (step,) = ResetAnswer.FromString(answer.header).steps
            assert step.after == 0

    asyncio.run(main())
