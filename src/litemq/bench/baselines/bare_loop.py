"""The bare loop: one process that reads the frames of sends, writes and syncs their records,
answers, and passes the records on to one reader. It checks nothing, and keeps nothing else.

It is what a broker in Python cannot be cheaper than, measured in the same minutes.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple, cast

import numpy as np

from litemq.bench.baselines.cpu_time import cpu_seconds
from litemq.bench.baselines.own_server import OwnServer, running
from litemq.net.event_loop import run
from litemq.net.frame import Flag, Frame, FrameReader, frame_prefix
from litemq.net.sent_answers import pack_sent_answer
from litemq.proto.wire_pb2 import Opcode

__all__ = ["BareLoad", "measure_bare_loop", "serve"]

_SEND: Final = int(Opcode.SEND)
_PULL: Final = int(Opcode.PULL)
_ANSWER: Final = int(Flag.ANSWER)
_FILE_BYTES: Final = 64 << 20
_MAX_WAIT_S: Final = 60.0
_MAX_FRAME: Final = 16 << 20
_HEADER: Final = b"\n\x05bench"
_OVERHEAD: Final = 184  # a record's bytes besides its body, in the load of the broker


class BareLoad(NamedTuple):
    """The cost of the bare loop (µs of CPU per message), and its latency (ms)."""

    cpu_us: float
    p50: float
    p99: float


class _Server:
    def __init__(self, file: int) -> None:
        self.file = file
        self.at = 0
        self.reader: asyncio.Transport | None = None
        self.sends: list[tuple[asyncio.Transport, Frame]] = []
        self.answer = pack_sent_answer(1, 1)
        self.loop = asyncio.get_running_loop()

    def add(self, transport: asyncio.Transport, frame: Frame) -> None:
        if frame.opcode == _PULL:
            self.reader = transport
            return
        if not self.sends:
            self.loop.call_soon(self.tick)
        self.sends.append((transport, frame))

    def tick(self) -> None:
        sends, self.sends = self.sends, []
        records = b"".join([frame.attachment for _, frame in sends])
        if self.at + len(records) > _FILE_BYTES:
            self.at = 0
        os.pwrite(self.file, records, self.at)
        os.fdatasync(self.file)
        self.at += len(records)
        answers: dict[asyncio.Transport, list[bytes]] = {}
        for transport, frame in sends:
            answers.setdefault(transport, []).append(
                frame_prefix(frame.correlation, _SEND, _ANSWER, len(self.answer)) + self.answer
            )
        for transport, pieces in answers.items():
            transport.write(b"".join(pieces))
        if self.reader is not None:
            self.reader.write(frame_prefix(1, _PULL, _ANSWER, 0, len(records)) + records)


class _Frames(asyncio.Protocol):
    """A connection whose frames go to ``on_frame``."""

    def __init__(self, on_frame: Callable[[asyncio.Transport, Frame], None]) -> None:
        self._on_frame = on_frame
        self._reader = FrameReader(_MAX_FRAME)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        for frame in self._reader.frames(1024):
            self._on_frame(self._transport, frame)


def serve() -> None:
    """Run the server, and print its port."""

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
            server = _Server(file.fileno())
            listening = await server.loop.create_server(lambda: _Frames(server.add), "127.0.0.1", 0)
            print(listening.sockets[0].getsockname()[1], flush=True)  # noqa: T201
            await server.loop.create_future()

    run(main())


def measure_bare_loop(rate: float, size: int, seconds: float) -> BareLoad:
    """Measure the bare loop at a steady ``rate``, with bodies of ``size`` bytes."""
    with running(serve) as server:
        return run(_load(server, rate, size + _OVERHEAD, seconds))


async def _load(server: OwnServer, rate: float, size: int, seconds: float) -> BareLoad:
    pid, port = server
    loop = asyncio.get_running_loop()
    latencies = array("q")
    total = int(rate * seconds)
    complete = loop.create_future()

    def on_frame(_transport: asyncio.Transport, frame: Frame) -> None:
        if frame.opcode != _PULL:
            return
        now = time.perf_counter_ns()
        records = frame.attachment
        latencies.extend([now - int.from_bytes(records[at : at + 8], "little") for at in range(0, len(records), size)])
        if len(latencies) >= total and not complete.done():
            complete.set_result(None)

    reading, _ = await loop.create_connection(lambda: _Frames(on_frame), "127.0.0.1", port)
    sending, _ = await loop.create_connection(lambda: _Frames(on_frame), "127.0.0.1", port)
    reading.write(frame_prefix(1, _PULL, 0, 0))
    padding = secrets.token_bytes(size - 8)
    await asyncio.sleep(0.2)
    before, begin = cpu_seconds(pid), time.perf_counter_ns()
    sent = 0
    while sent < total:
        due = min(total, int((time.perf_counter_ns() - begin) * rate / 1e9) + 1)
        if sent < due:
            records = b"".join(
                (begin + int(number * 1e9 / rate)).to_bytes(8, "little") + padding for number in range(sent, due)
            )
            sending.write(frame_prefix(due, _SEND, 0, len(_HEADER), len(records)) + _HEADER + records)
            sent = due
        await asyncio.sleep(0.001)
    await asyncio.wait_for(complete, _MAX_WAIT_S)
    cpu = cpu_seconds(pid) - before
    for transport in (reading, sending):
        transport.abort()  # uvloop may wait for open transports when it is closed
    await asyncio.sleep(0)
    milliseconds = np.frombuffer(latencies, np.int64) / 1e6
    p50, p99 = np.percentile(milliseconds, (50, 99)).tolist()
    return BareLoad(cpu / total * 1e6, p50, p99)
