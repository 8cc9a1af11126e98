"""Pulls: answered at once or when messages arrive, and not while the caller does not read."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.errors import (
    InvalidArgumentError,
    NotGroupMemberError,
    OffsetExpiredError,
    OffsetOutOfRangeError,
    OverloadedError,
)
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import Opcode, PullAnswer, PullRequest
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.testing.local_channel import LocalChannel
from litemq.types import Durability
from support.callers import Asking, Kind, queue_offsets, records, running_broker
from support.damaged_record import damaged
from support.waiting import HANG_S, eventually

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


def _pull(
    asking: Asking, offset: int = 0, *, queue_id: int = 0, most: int = 100, size: int = 0, wait_ms: int = 0
) -> asyncio.Future[Answer]:
    request = PullRequest(
        topic="orders", queue_id=queue_id, offset=offset, max_messages=most, max_bytes=size, wait_ms=wait_ms
    )
    return asking.channel.ask(Opcode.PULL, request.SerializeToString())


def _offsets(answer: Answer) -> list[int]:
    return queue_offsets(answer.attachment)


@KINDS
def test_available_messages_are_answered_at_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(10))
            answer = await _pull(ann, 3, most=4)
            assert _offsets(answer) == [3, 4, 5, 6]
            pulled = PullAnswer.FromString(answer.header)
            assert (pulled.range.least, pulled.range.next) == (0, 10)
            assert _offsets(await _pull(ann, 3, size=1)) == [3]  # at least one, however large
            assert (await _pull(ann, 10)).attachment == b""
            assert (await _pull(ann, queue_id=1)).attachment == b""

    asyncio.run(main())


@KINDS
@pytest.mark.parametrize("level", [Durability.MEMORY, Durability.DISK])
def test_a_pull_waits_for_new_messages(kind: Kind, level: Durability, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann, bob = Asking(broker, "ann"), Asking(broker, "bob")
            await ann.create()
            waiting = [_pull(bob, wait_ms=60_000), _pull(bob, queue_id=1, wait_ms=60_000)]
            await eventually(lambda: broker._long_polls.waiting == 2)
            await ann.send(records(2, level=level))
            assert _offsets(await asyncio.wait_for(waiting[0], HANG_S)) == [0, 1]
            assert broker._long_polls.waiting == 1
            bob.channel.close()
            await asyncio.gather(waiting[1], return_exceptions=True)
            assert broker._long_polls.waiting == 0

    asyncio.run(main())


@KINDS
def test_a_pull_waits_for_unconfirmed_messages(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2, level=Durability.MEMORY))
            assert _offsets(await asyncio.wait_for(_pull(ann, wait_ms=60_000), HANG_S)) == [0, 1]
            assert broker._long_polls.waiting == 0

    asyncio.run(main())


def test_a_pull_is_answered_empty_after_its_wait_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            answer = await asyncio.wait_for(_pull(ann, wait_ms=20), HANG_S)
            assert PullAnswer.FromString(answer.header).next_offset == 0
            assert broker._long_polls.waiting == 0

    asyncio.run(main())


def test_messages_that_are_not_in_memory_are_read_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(5))
            monkeypatch.setattr(broker.context.store, "read_if_hot", lambda *_: None)
            assert _offsets(await _pull(ann)) == [0, 1, 2, 3, 4]

    asyncio.run(main())


def test_disk_reads_of_a_caller_run_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path, BrokerLimits(max_waiting_pulls=20)) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(5))
            reads = most = 0
            pull = broker.context.store.pull

            async def counted(*arguments: Any) -> bytes | memoryview:
                nonlocal reads, most
                reads += 1
                most = max(most, reads)
                try:
                    await asyncio.sleep(0.001)
                    return await pull(*arguments)
                finally:
                    reads -= 1

            monkeypatch.setattr(broker.context.store, "pull", counted)
            monkeypatch.setattr(broker.context.store, "read_if_hot", lambda *_: None)
            answers = await asyncio.gather(*(_pull(ann) for _ in range(30)), return_exceptions=True)
            refused = [answer for answer in answers if isinstance(answer, OverloadedError)]
            assert most == 1
            assert len(refused) == 30 - 1 - 20, "they wait without end"
            assert not broker._long_polls._cold

            waiting = [asyncio.ensure_future(_pull(ann)) for _ in range(10)]
            while not broker._long_polls._cold:  # noqa: ASYNC110
                await asyncio.sleep(0)
            broker.caller_gone(ann.channel)
            await asyncio.sleep(0.05)
            assert sum(1 for answer in waiting if answer.done()) <= 1, "the broker reads for a gone caller"
            for answer in waiting:
                answer.cancel()

    asyncio.run(main())


def test_a_caller_that_does_not_read_gets_no_more_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = _Stuck(broker)
            await ann.create()
            waiting = _pull(ann, wait_ms=60_000)
            await ann.send(records(2))
            await eventually(lambda: ann.is_waited_for)
            assert not waiting.done()
            assert broker._long_polls.waiting == 0  # it is the caller's turn now
            ann.read()
            assert _offsets(await waiting) == [0, 1]

    asyncio.run(main())


class _Stuck(Asking):
    """A caller that does not read its answers."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._resumed: list[Callable[[], None]] = []
        outer = self

        class Stuck(LocalChannel):
            is_stuck = True

            @property
            def is_writable(self) -> bool:
                return not self.is_stuck

            def on_writable(self, resume: Callable[[], None]) -> None:
                outer._resumed.append(resume)

        self.channel = Stuck("broker", "stuck", broker)

    @property
    def is_waited_for(self) -> bool:
        """Whether the broker waits until the caller is writable."""
        return bool(self._resumed)

    def read(self) -> None:
        self.channel.is_stuck = False  # type: ignore[attr-defined]
        for resume in self._resumed:
            resume()


def test_offsets_out_of_range_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(3))
            with pytest.raises(OffsetOutOfRangeError):
                await _pull(ann, 4)
            broker.context.store.state.start_offsets[QueueKey(16, 0)] = 2
            with pytest.raises(OffsetExpiredError, match="retention"):
                await _pull(ann, 1)
            with pytest.raises(InvalidArgumentError):
                await _pull(ann, most=0)
            with pytest.raises(InvalidArgumentError):
                await _pull(ann, queue_id=4)
            request = PullRequest(topic="orders", max_messages=1, group="g")
            with pytest.raises(NotGroupMemberError):
                await ann.channel.ask(Opcode.PULL, request.SerializeToString())

    asyncio.run(main())


def test_a_damaged_record_is_reported_and_skipped(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(3))
            log = next((tmp_path / "commitlog").iterdir())
            data = log.read_bytes()
            second = data.index(b"m-1")
            with log.open("r+b") as file:
                file.seek(second)
                file.write(b"X")
            assert _offsets(await _pull(ann)) == [0]
            pulled = PullAnswer.FromString((await _pull(ann, 1)).header)
            assert "damaged" in pulled.damaged
            assert pulled.next_offset == 2
            assert _offsets(await _pull(ann, 2)) == [2]

    asyncio.run(main())


def test_a_damaged_record_of_a_replica_is_not_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(3))
            monkeypatch.setattr(DiskStore, "is_replicated", True)
            with damaged(tmp_path, b"m-1"):
                pulled = PullAnswer.FromString((await _pull(ann, 1)).header)
                assert (pulled.damaged, pulled.next_offset) == ("", 1)
            assert _offsets(await _pull(ann, 1)) == [1, 2]

    asyncio.run(main())


def test_the_waiting_pulls_of_a_client_are_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path, BrokerLimits(max_waiting_pulls=3)) as broker:
            ann = Asking(broker)
            await ann.create()
            waiting = [_pull(ann, wait_ms=60_000) for _ in range(3)]
            with pytest.raises(OverloadedError):
                await _pull(ann, wait_ms=60_000)
            broker.close()
            assert all(answer.attachment == b"" for answer in await asyncio.gather(*waiting))

    asyncio.run(main())
