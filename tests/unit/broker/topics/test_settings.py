"""Settings of topics: created, described, changed, and restored after a restart."""

import asyncio
from pathlib import Path

import pytest

from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import (
    AlterTopicRequest,
    CreateTopicRequest,
    Opcode,
    TopicAnswer,
    TopicRequest,
    TopicSettings,
)
from support.callers import Asking, Kind, running_broker

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


async def _create(asking: Asking, topic: str = "orders", queues: int = 0, **settings: int) -> TopicAnswer:
    request = CreateTopicRequest(topic=topic, queues=queues, settings=TopicSettings(**settings) if settings else None)  # type: ignore[arg-type]
    return TopicAnswer.FromString((await asking.channel.ask(Opcode.CREATE_TOPIC, request.SerializeToString())).header)


async def _alter(asking: Asking, **settings: int) -> TopicAnswer:
    request = AlterTopicRequest(topic="orders", **settings)  # type: ignore[arg-type]
    return TopicAnswer.FromString((await asking.channel.ask(Opcode.ALTER_TOPIC, request.SerializeToString())).header)


async def _describe(asking: Asking) -> TopicAnswer:
    return TopicAnswer.FromString(
        (await asking.channel.ask(Opcode.DESCRIBE_TOPIC, TopicRequest(topic="orders").SerializeToString())).header
    )


@KINDS
def test_a_topic_with_priorities_has_eight_queue_ids_for_each_queue(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            made = await _create(ann, queues=3, has_priorities=True, weighted_priorities=True)
            assert len(made.queues) == 24
            assert (made.settings.has_priorities, made.settings.weighted_priorities) == (True, True)
            assert broker.topics[0].has_priorities
            again = await _create(ann)  # who names nothing takes it as it is
            assert again.settings == made.settings
            assert await _create(ann, queues=3, has_priorities=True, weighted_priorities=True) == made
            for other in ({"queues": 3}, {"ttl_ms": 5}):
                with pytest.raises(InvalidArgumentError, match="already exists with 24 queues"):
                    await _create(ann, **other)  # type: ignore[arg-type]

    asyncio.run(main())


@KINDS
def test_settings_that_are_not_named_stay(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await _create(ann, queues=2, ttl_ms=5000)
            altered = await _alter(ann, max_backlog=10, backlog_dead_letters=True)
            assert altered == await _describe(ann)
            assert altered.settings == TopicSettings(ttl_ms=5000, max_backlog=10, backlog_dead_letters=True)
            assert (await _alter(ann, ttl_ms=0, max_backlog=0)).settings == TopicSettings(backlog_dead_letters=True)

    asyncio.run(main())


def test_settings_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await _create(ann, queues=1, has_priorities=True, ttl_ms=7)
            altered = await _alter(ann, weighted_priorities=True, ttl_ms=9)
        async with running_broker("disk", tmp_path) as broker:
            assert await _describe(Asking(broker)) == altered

    asyncio.run(main())


@pytest.mark.parametrize(
    "settings",
    [
        {"ttl_ms": -1},
        {"ttl_ms": 1 << 60},
        {"max_backlog": -1},
        {"max_backlog": 1 << 50},
        {"weighted_priorities": True},
        {"archived": 3},
        {"archived": 1, "archive_wait_ms": 5},
        {"archive_wait_ms": 5},
        {"archived": 2, "archive_wait_ms": -1},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, int], tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            with pytest.raises(InvalidArgumentError):
                await _create(ann, **settings)  # type: ignore[arg-type]
            await _create(ann)
            with pytest.raises(InvalidArgumentError):
                await _alter(ann, **settings)
            assert (await _describe(ann)).settings == TopicSettings()

    asyncio.run(main())


def test_turning_the_archive_off_resets_its_wait(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            made = await _create(ann, archived=2, archive_wait_ms=9)
            assert (made.settings.archived, made.settings.archive_wait_ms) == (2, 9)
            assert (await _alter(ann, archived=0)).settings == TopicSettings()

    asyncio.run(main())
