"""Pulls that are answered in parts: each message once and in order, and always a last part."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.broker.broker import Broker
from litemq.errors import LiteMQError, OffsetOutOfRangeError
from litemq.format.batches.extent import find_extent
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import Opcode, PullAnswer, PullRequest
from litemq.types import Durability
from support.callers import Asking, Kind, queue_offsets, records, running_broker
from support.waiting import HANG_S, eventually

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


class _Parts:
    """A pull in parts, and what it has brought."""

    def __init__(
        self, asking: Asking, offset: int = 0, *, most: int = 100, size: int = 0, wait_ms: int = 60_000
    ) -> None:
        request = PullRequest(
            topic="orders", offset=offset, max_messages=most, max_bytes=size, wait_ms=wait_ms, in_parts=True
        )
        self.parts: list[list[int]] = []
        self.last: asyncio.Future[Answer] = asking.channel.ask(
            Opcode.PULL, request.SerializeToString(), b"", self._on_part
        )

    def _on_part(self, header: bytes, attachment: bytes) -> None:
        assert header == b""
        self.parts.append(queue_offsets(attachment))

    @property
    def received(self) -> list[int]:
        return [*chain.from_iterable(self.parts)]

    async def rest(self) -> list[int]:
        return queue_offsets((await asyncio.wait_for(self.last, HANG_S)).attachment)


@KINDS
def test_each_message_comes_once_until_all_that_were_asked_for(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2))
            pull = _Parts(ann, most=6)
            await eventually(lambda: pull.parts == [[0, 1]])
            await ann.send(records(3))
            await eventually(lambda: pull.parts == [[0, 1], [2, 3, 4]])
            assert broker._long_polls.waiting == 1
            await ann.send(records(3))
            assert await pull.rest() == [5]
            assert broker._long_polls.waiting == 0

    asyncio.run(main())


@KINDS
def test_a_reader_that_is_behind_gets_one_answer(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(10))
            pull = _Parts(ann, size=500)  # as many bytes as some of the records have
            assert 0 < len(await pull.rest()) < 10
            assert not pull.parts

    asyncio.run(main())


def test_the_last_part_comes_at_the_end_of_the_wait_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2))
            pull = _Parts(ann, wait_ms=20)
            assert await pull.rest() == []
            assert PullAnswer.FromString((await pull.last).header).next_offset == 2
            assert pull.parts == [[0, 1]]
            assert broker._long_polls.waiting == 0
            without_wait = _Parts(ann, wait_ms=0)
            assert await without_wait.rest() == [0, 1]
            assert not without_wait.parts

    asyncio.run(main())


def test_an_error_ends_the_parts(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            with pytest.raises(OffsetOutOfRangeError):
                await _Parts(ann, offset=5).rest()
            pull = _Parts(ann)
            await eventually(lambda: broker._long_polls.waiting == 1)
            broker._long_polls.close()
            assert await pull.rest() == []

    asyncio.run(main())


def test_an_error_of_the_reader_is_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()

            def fail(_header: bytes, _attachment: bytes) -> None:
                raise LiteMQError("cannot decode")

            request = PullRequest(topic="orders", max_messages=10, wait_ms=60_000, in_parts=True)
            failing = ann.channel.ask(Opcode.PULL, request.SerializeToString(), b"", fail)
            other = _Parts(ann)
            await eventually(lambda: broker._long_polls.waiting == 2)
            await ann.send(records())
            await ann.send(records())
            with pytest.raises(LiteMQError, match="cannot decode"):
                await asyncio.wait_for(failing, HANG_S)
            await eventually(lambda: other.received == [0, 1])

    asyncio.run(main())


_STEPS = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from([Durability.MEMORY, Durability.DISK]), st.booleans()), max_size=12
)


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(["memory", "disk"]),
    steps=_STEPS,
    most=st.integers(1, 12),
    size=st.sampled_from([0, 1, 400, 1000]),
)
def test_no_message_is_left_behind(kind: Kind, steps: list[tuple[int, Durability, bool]], most: int, size: int) -> None:
    """Whatever is sent, one pull after another reads all of it, without a wait time that ends."""

    async def read(ann: Asking, total: int, seen: list[int]) -> None:
        while len(seen) < total:
            pull = _Parts(ann, len(seen), most=most, size=size)
            known = list(seen)
            while not pull.last.done() and len(seen) < total:
                await asyncio.sleep(0)
                seen[:] = known + pull.received
            if pull.last.done():
                seen[:] = known + pull.received + await pull.rest()

    async def main(broker: Broker) -> None:
        ann = Asking(broker)
        await ann.create()
        seen: list[int] = []
        total = sum(count for count, _, _ in steps)
        reading = asyncio.ensure_future(read(ann, total, seen))
        sending: list[Awaitable[object]] = []
        for count, level, waits in steps:
            sent = asyncio.ensure_future(ann.send(records(count, level=level)))
            sending.append(sent)
            if waits:
                await sent
        await asyncio.gather(*sending)
        await asyncio.wait_for(reading, HANG_S)
        assert seen == [*range(total)]

    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with running_broker(kind, Path(folder)) as broker:
                await main(broker)

    asyncio.run(run())


def test_the_extent_of_records_is_the_same_in_c_and_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(3))
            await ann.send(records(2, expire_at=7_000_000_000_000))
            attachment = (await _pull_all(ann)).attachment
            extents = []
            for enabled in (True, False):
                with monkeypatch.context() as patched:
                    patched.setattr("litemq.format.native.enabled", enabled)
                    extents.append(find_extent(attachment))
            assert extents[0] == extents[1]
            assert extents[0][:4] == (5, 0, 4, 7_000_000_000_000)

    asyncio.run(main())


def _pull_all(ann: Asking) -> asyncio.Future[Answer]:
    return ann.channel.ask(Opcode.PULL, PullRequest(topic="orders", max_messages=100).SerializeToString())
