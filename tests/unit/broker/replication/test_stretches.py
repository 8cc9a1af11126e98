"""A replica reads stretches of its log for another one: of its group and store, and intact."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from litemq.broker.replication.stretches import MAX_STRETCH_BYTES, StretchRequests, fetch_stretch
from litemq.errors import InvalidArgumentError, LiteMQError, OffsetOutOfRangeError, OverloadedError
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, Session
from litemq.proto.wire_pb2 import ReplicaFacts
from litemq.storage.log.repair import Stretch
from support.on_loop import on_loop
from support.waiting import HANG_S, eventually

STORE = bytes(16)


class _Source:
    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self.store_id = STORE
        self.read_stretch = read


@asynccontextmanager
async def _serving(read: Callable[[int, int], bytes]) -> AsyncIterator[ReplicaFacts]:
    """Serve stretches of ``STORE``, and yield its address."""
    requests = StretchRequests("orders", _Source(read))

    def handle(session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            try:
                requests.handler.call(session, frame)
            except LiteMQError as error:
                session.refuse(frame, error)

    server = FrameServer(handle, software="test")
    _, port = await server.start("127.0.0.1", 0)
    try:
        yield ReplicaFacts(store_id=STORE, broker_id="a", host="127.0.0.1", port=port)
    finally:
        requests.close()
        await server.close()


async def _fetch(replica: ReplicaFacts, begin: int, end: int, group: str = "orders") -> bytes:
    return await fetch_stretch(replica, group, Stretch(begin, end), client_id="b")


@on_loop
async def test_a_stretch_is_read() -> None:
    async with _serving(lambda begin, end: b"%d-%d" % (begin, end)) as replica:
        assert await _fetch(replica, 8, 24) == b"8-24"
        assert await _fetch(replica, 0, MAX_STRETCH_BYTES) == b"0-%d" % MAX_STRETCH_BYTES


@on_loop
async def test_another_group_or_store_is_refused() -> None:
    async with _serving(lambda _begin, _end: b"bytes of another log") as replica:
        with pytest.raises(InvalidArgumentError, match="another replica was asked"):
            await _fetch(replica, 8, 24, group="payments")
        replica.store_id = b"x" * 16
        with pytest.raises(InvalidArgumentError, match="another replica was asked"):
            await _fetch(replica, 8, 24)


@on_loop
async def test_the_size_of_a_stretch_is_limited() -> None:
    async with _serving(lambda begin, end: bytes(end - begin)) as replica:
        for begin, end in ((0, MAX_STRETCH_BYTES + 1), (8, 8), (16, 8), (0, (1 << 64) - 1)):
            with pytest.raises(InvalidArgumentError, match="choose 1"):
                await _fetch(replica, begin, end)


@on_loop
async def test_the_error_of_the_store_is_the_answer() -> None:
    def read(_begin: int, _end: int) -> bytes:
        raise OffsetOutOfRangeError("the log ends before")

    async with _serving(read) as replica:
        for _ in range(3):  # a refused one is not counted as waiting
            with pytest.raises(OffsetOutOfRangeError, match="the log ends before"):
                await _fetch(replica, 8, 24)


@on_loop
async def test_few_stretches_are_read_at_a_time() -> None:
    may_read = threading.Event()

    def read(_begin: int, _end: int) -> bytes:
        assert may_read.wait(HANG_S)
        return b"data"

    async with _serving(read) as replica:
        reading = [asyncio.create_task(_fetch(replica, 8, 24)) for _ in range(3)]
        await eventually(lambda: any(task.done() for task in reading))
        may_read.set()
        outcomes = await asyncio.gather(*reading, return_exceptions=True)
        assert sorted(map(type, outcomes), key=str) == [bytes, bytes, OverloadedError]
        assert await _fetch(replica, 8, 24) == b"data"
