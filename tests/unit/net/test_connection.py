"""Client and server on real sockets: many requests at once, hostile peers, bounded memory."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from unittest.mock import Mock

import pytest

from litemq.errors import (
    AddressInUseError,
    ConnectionLostError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    OverloadedError,
    ProtocolError,
    RecordFormatError,
    RemoteError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from litemq.net import connection as connection_module
from litemq.net import event_loop
from litemq.net import server as server_module
from litemq.net.client import Peer
from litemq.net.connection import Connection
from litemq.net.failures import decode_failure
from litemq.net.frame import Frame, FrameReader, frame_prefix
from litemq.net.frame_budget import FrameBudget
from litemq.net.server import FrameServer, ServerLimits, Session
from litemq.proto.wire_pb2 import Hello, HelloAnswer, Opcode
from support.garbage import no_error_in_cycles
from support.waiting import HANG_S, eventually

ECHO, FAIL, NEVER, LARGE, LATER, NOW, TOO_MUCH, SLOW = range(100, 108)
AGES_S = 10 * HANG_S  # what would take so long is not what a test waits for
AGES_MS = int(AGES_S * 1000)
_HELLO = Hello(least_version=1, most_version=1, client_id="tester").SerializeToString()
_GREETING = frame_prefix(0, Opcode.HELLO, 0, len(_HELLO)) + _HELLO


@pytest.fixture(autouse=True, params=["asyncio", "uvloop"])
def _each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test on uvloop and on asyncio's loop."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
        monkeypatch.setattr(asyncio, "run", event_loop.run)


class Echo:
    """A server with a few test requests."""

    def __init__(self, **limits: int) -> None:
        self.turns: list[int] = []
        self.gone = 0
        self.held: list[Frame] = []
        self.answered_bytes = 0
        self.server = FrameServer(
            self.handle, software="test", limits=ServerLimits(**limits), on_session_end=self._left
        )

    def _left(self, _session: Session) -> None:
        self.gone += 1

    def handle(self, session: Session, frames: list[Frame]) -> None:
        self.turns.append(len(frames))
        for frame in frames:
            match frame.opcode:
                case 100:
                    session.answer(frame, frame.header, frame.attachment)
                case 101:
                    session.refuse(
                        frame,
                        OffsetOutOfRangeError("nothing there") if frame.header == b"1" else RecordFormatError("crc", 5),
                    )
                case 106:
                    session.refuse(frame, OverloadedError("too much", 20))
                case 107:
                    time.sleep(0.0005)
                    session.answer(frame, b"")
                case 103:
                    self.answered_bytes += 1 << 20
                    session.answer(frame, b"", bytes(1 << 20))
                case 104:
                    self.held.append(frame)
                case 105:
                    session.answer(frame, b"")
                    for held in self.held:
                        session.answer(held, b"later")


def _run(test: Callable[[Echo, str, int], Awaitable[None]], **limits: int) -> Echo:
    async def main() -> Echo:
        echo = Echo(**limits)
        host, port = await echo.server.start("127.0.0.1", 0)
        try:
            await test(echo, host, port)
        finally:
            await echo.server.close()
        assert echo.server.sessions == 0
        return echo

    return asyncio.run(main())


def test_many_requests_at_once_and_answers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_MAX_TICK_S", AGES_S)  # a busy machine hands over less at a time

    async def test(echo: Echo, host: str, port: int) -> None:
        peer = await Peer.connect(host, port, client_id="me", timeout=HANG_S)
        assert peer.limits.version == 1
        later = peer.ask(LATER, b"")
        for n in range(20):
            await peer.ask(ECHO, b"%d" % n)  # by now the answers are known to be small
        answers = await asyncio.gather(*(peer.ask(ECHO, b"%d" % n, bytes(n)) for n in range(500)))
        assert [(answer.header, len(answer.attachment)) for answer in answers] == [(b"%d" % n, n) for n in range(500)]
        assert not later.done()
        await peer.ask(NOW, b"")
        assert (await later).header == b"later"
        assert max(echo.turns) > 50  # what arrived together was handed over together
        assert peer.in_flight == 0
        peer.close()

    _run(test)


def test_errors_keep_their_class() -> None:
    async def test(_echo: Echo, host: str, port: int) -> None:
        peer = await Peer.connect(host, port, client_id="me", timeout=HANG_S)
        with pytest.raises(OffsetOutOfRangeError, match="nothing there"):
            await peer.request(FAIL, b"1", timeout=HANG_S)
        with pytest.raises(RemoteError, match="crc") as caught:
            await peer.request(FAIL, b"2", timeout=HANG_S)
        assert caught.value.remote_code == RecordFormatError.code
        with pytest.raises(RequestTimeoutError):
            await peer.request(NEVER, b"", timeout=0.05)
        assert (await peer.request(ECHO, b"still fine", timeout=HANG_S)).header == b"still fine"
        peer.close()
        with pytest.raises(ConnectionLostError):
            await peer.ask(ECHO, b"")

    _run(test)
    assert isinstance(decode_failure(b""), RemoteError)


def test_requests_in_flight_fail_when_the_server_stops() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        lost: list[object] = []
        peer = await Peer.connect(host, port, client_id="me", timeout=HANG_S, on_lost=lost.append)
        waiting = peer.ask(NEVER, b"")
        await eventually(lambda: echo.turns)  # the server has it
        await echo.server.close()
        with pytest.raises(ConnectionLostError, match="closed by the peer"):
            await waiting
        assert len(lost) == 1
        assert not peer.is_open
        with pytest.raises(ConnectionLostError, match="cannot reach"):
            await Peer.connect(host, port, client_id="me", timeout=HANG_S)

    _run(test)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (frame_prefix(1, ECHO, 0, 0), ProtocolError),
        (frame_prefix(1, Opcode.HELLO, 0, 3) + b"\xff\xff\xff", ProtocolError),
        (
            frame_prefix(1, Opcode.HELLO, 0, 4) + Hello(least_version=7, most_version=9).SerializeToString(),
            UnsupportedVersionError,
        ),
    ],
)
def test_a_connection_without_hello_is_refused(sent: bytes, error: type[Exception]) -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(sent)
        frames = FrameReader(10_000)
        frames.feed(await reader.read())  # to the end: the server closes
        (frame,) = frames.frames(10)
        assert isinstance(decode_failure(frame.header), error)
        writer.close()
        assert echo.turns == []

    with no_error_in_cycles():
        _run(test)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10, b"\xff" * 64, bytes(64)])
def test_an_invalid_frame_ends_the_connection(noise: bytes) -> None:
    async def test(_echo: Echo, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(noise)
        await asyncio.wait_for(reader.read(), HANG_S)
        writer.close()

    with no_error_in_cycles():
        _run(test, handshake_timeout_ms=AGES_MS, idle_timeout_ms=AGES_MS)  # neither ends it


@pytest.mark.parametrize("is_greeted", [False, True])
def test_an_invalid_frame_costs_little(caplog: pytest.LogCaptureFixture, *, is_greeted: bool) -> None:
    async def test(_echo: Echo, host: str, port: int) -> None:
        for _ in range(10):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write((_GREETING if is_greeted else b"") + b"\xff" * 16)
            await asyncio.wait_for(reader.read(), HANG_S)
            writer.close()

    with caplog.at_level(logging.WARNING):
        _run(test, handshake_timeout_ms=AGES_MS, idle_timeout_ms=AGES_MS)
    assert len(caplog.records) == 10
    assert all("127.0.0.1:" in record.getMessage() and len(record.getMessage()) < 500 for record in caplog.records)
    assert all(record.exc_info is None for record in caplog.records)


def test_a_server_that_answers_nonsense_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"\xff" * 16)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        with pytest.raises(ConnectionLostError, match="a frame of"):
            await Peer.connect(host, port, client_id="me", timeout=HANG_S)
        server.close()
        await server.wait_closed()

    asyncio.run(main())
    assert caplog.records == []


def test_a_stranger_cannot_send_a_long_frame() -> None:
    async def test(_echo: Echo, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(frame_prefix(1, Opcode.HELLO, 0, 0, 65 << 10))
        await asyncio.wait_for(reader.read(), HANG_S)
        writer.close()
        reader, writer = await asyncio.open_connection(host, port)
        body = bytes(1 << 20)  # sent together with HELLO: accepted, since HELLO comes first
        writer.write(_GREETING + frame_prefix(1, ECHO, 0, 0, len(body)) + body)
        frames = FrameReader(2 << 20)
        found: list[Frame] = []
        while len(found) < 2:
            frames.feed(await asyncio.wait_for(reader.read(1 << 20), HANG_S))
            found += frames.frames(10)
        assert found[1].attachment == body
        writer.close()

    _run(test, handshake_timeout_ms=AGES_MS, idle_timeout_ms=AGES_MS)


def test_strangers_are_few_and_do_not_keep_others_out() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        strangers = [await asyncio.open_connection(host, port) for _ in range(20)]
        peer = await Peer.connect(host, port, client_id="friend", timeout=HANG_S)
        assert (await peer.request(ECHO, b"hello", timeout=HANG_S)).header == b"hello"
        assert echo.server.sessions <= 6
        assert await asyncio.wait_for(strangers[0][0].read(), HANG_S) == b""  # the oldest was closed
        peer.close()
        for _, writer in strangers:
            writer.close()

    _run(test, max_strangers=5, handshake_timeout_ms=AGES_MS, idle_timeout_ms=AGES_MS)


def test_long_frames_wait_for_memory_and_slow_ones_make_way() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        size = 1 << 20
        slow = [await asyncio.open_connection(host, port) for _ in range(4)]
        for _, writer in slow:
            writer.write(_GREETING + frame_prefix(1, ECHO, 0, 0, size) + bytes(size // 2))
        await eventually(lambda: echo.server._budget.is_contended)
        unfinished = [connection for connection in echo.server._sessions if connection.unfinished_bytes]
        assert sum(connection.is_torn for connection in unfinished) == 2  # the others wait without being read
        quick = await Peer.connect(host, port, client_id="quick", timeout=HANG_S)
        answer = await quick.request(ECHO, b"", bytes(size), timeout=HANG_S)
        assert len(answer.attachment) == size
        assert (await quick.request(ECHO, b"short", timeout=HANG_S)).header == b"short"
        quick.close()
        for _, writer in slow:
            writer.close()

    _run(
        test, max_frame_bytes=2 << 20, max_unfinished_bytes=5 << 19, handshake_timeout_ms=4000, idle_timeout_ms=AGES_MS
    )


def test_a_reservation_has_the_size_of_the_current_frame() -> None:
    total = 8 << 20

    async def test(echo: Echo, host: str, port: int) -> None:
        def reserved() -> int:
            return total - echo.server._budget._free

        _, writer = await asyncio.open_connection(host, port)
        first, second = (frame_prefix(1, NEVER, 0, 0, size << 20) + bytes(size << 20) for size in (1, 3))
        writer.write(_GREETING + first[:-1])
        await eventually(lambda: reserved() == len(first))
        writer.write(first[-1:] + second[:-1])  # there is no moment without an unfinished frame
        await eventually(lambda: reserved() == len(second))
        writer.write(second[-1:])
        await eventually(lambda: reserved() == 0)
        writer.close()

    _run(
        test,
        max_frame_bytes=4 << 20,
        max_unfinished_bytes=total,
        handshake_timeout_ms=AGES_MS,
        idle_timeout_ms=AGES_MS,
    )


def test_a_frame_that_waited_for_memory_gives_it_back() -> None:
    frame = frame_prefix(1, ECHO, 0, 0, 100_000) + bytes(100_000)
    budget = FrameBudget(len(frame))

    async def test() -> None:
        def connect() -> Connection:
            connection = Connection(
                lambda _connection, _frames: None, lambda *_: None, max_frame_bytes=1 << 20, budget=budget
            )
            connection.connection_made(Mock(spec=asyncio.Transport, is_closing=lambda: False))
            connection.admit()
            return connection

        first, second = connect(), connect()
        for connection in (first, second):
            connection.data_received(frame[:-1])
        assert budget.is_contended  # the second waits
        for connection in (first, second):
            connection.data_received(frame[-1:])
        assert budget.reserve("another", len(frame), lambda: None)

    asyncio.run(test())


def test_a_frame_that_arrives_byte_by_byte_is_cut_off() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        _, writer = await asyncio.open_connection(host, port)
        writer.write(_GREETING + frame_prefix(1, ECHO, 0, 0, 10_000))

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                while not writer.is_closing():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        await eventually(lambda: echo.gone)
        writer.close()
        await dripping

    _run(test, handshake_timeout_ms=400, idle_timeout_ms=AGES_MS)


def test_a_connection_that_sends_nothing_is_closed() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        mute, mute_writer = await asyncio.open_connection(host, port)
        await asyncio.wait_for(mute.read(), HANG_S)
        mute_writer.close()
        await eventually(lambda: echo.gone)
        assert echo.gone == 1

    _run(test, handshake_timeout_ms=100, idle_timeout_ms=AGES_MS)


def test_an_idle_connection_is_closed_unless_it_pings() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        pinging = await Peer.connect(host, port, client_id="pinging", timeout=HANG_S, ping_interval=0.05)
        silent = await Peer.connect(host, port, client_id="silent", timeout=HANG_S, ping_interval=AGES_S)
        connections = {session.client_id: connection for connection, session in echo.server._sessions.items()}
        heard = {name: connection.heard_at for name, connection in connections.items()}
        for _ in range(3):
            await eventually(lambda: connections["pinging"].heard_at > heard["pinging"])
            heard["pinging"] = connections["pinging"].heard_at
        assert connections["silent"].heard_at == heard["silent"]
        connections["silent"].heard_at -= AGES_S + 1  # so long has it been silent by now, for the server
        await eventually(lambda: not silent.is_open)
        assert pinging.is_open
        assert echo.gone == 1
        pinging.close()

    _run(test, idle_timeout_ms=AGES_MS)


def test_a_busy_connection_does_not_block_others() -> None:
    async def test(_echo: Echo, host: str, port: int) -> None:
        greedy = await Peer.connect(host, port, client_id="greedy", timeout=HANG_S)
        other = await Peer.connect(host, port, client_id="other", timeout=HANG_S)
        answers = [greedy.ask(SLOW, b"") for _ in range(1000)]
        await asyncio.sleep(0.01)
        for _ in range(3):
            await other.request(ECHO, b"", timeout=HANG_S)
        assert sum(1 for answer in answers if answer.done()) < 900, "the other waited for everything"
        await asyncio.gather(*answers)
        greedy.close()
        other.close()

    _run(test)


def test_reading_pauses_after_an_overload_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(_echo: Echo, host: str, port: int) -> None:
        greedy = await Peer.connect(host, port, client_id="greedy", timeout=HANG_S)
        other = await Peer.connect(host, port, client_id="other", timeout=HANG_S)
        with pytest.raises(OverloadedError):
            await greedy.ask(TOO_MUCH, b"")
        await asyncio.gather(*(greedy.request(ECHO, b"", timeout=HANG_S) for _ in range(10)))  # a moment later it is
        monkeypatch.setattr(server_module, "_OVERLOAD_PAUSE_S", AGES_S)  # a moment that is not over before the test is
        with pytest.raises(OverloadedError):
            await greedy.ask(TOO_MUCH, b"")
        unheard = greedy.ask(ECHO, b"")
        for _ in range(10):
            await other.request(ECHO, b"", timeout=HANG_S)
        assert not unheard.done()
        greedy.close()
        with pytest.raises(ConnectionLostError):
            await unheard
        other.close()

    _run(test)


def test_a_connection_that_stops_inside_a_frame_is_closed() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        hello = Hello(least_version=1, most_version=1, client_id="torn").SerializeToString()
        greeting = frame_prefix(0, Opcode.HELLO, 0, len(hello)) + hello
        idle, idle_writer = await asyncio.open_connection(host, port)
        idle_writer.write(greeting)
        torn, torn_writer = await asyncio.open_connection(host, port)
        torn_writer.write(greeting + frame_prefix(1, ECHO, 0, 0, 1000) + bytes(500))
        await asyncio.wait_for(idle.read(1), HANG_S)
        connections = echo.server._sessions
        await eventually(lambda: any(connection.is_torn for connection in connections))
        for connection in connections:
            connection.heard_at -= 60  # so long have both been silent by now, for the server
        await asyncio.wait_for(torn.read(), HANG_S)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(idle.read(-1), 0.3)  # who is silent between frames has longer
        torn_writer.close()
        idle_writer.close()

    _run(test, idle_timeout_ms=AGES_MS)


def test_a_client_that_never_reads_does_not_grow_the_server() -> None:
    async def test(echo: Echo, host: str, port: int) -> None:
        stuck = socket.create_connection((host, port))
        stuck.setblocking(False)
        loop = asyncio.get_running_loop()
        hello = Hello(least_version=1, most_version=1).SerializeToString()
        await loop.sock_sendall(stuck, frame_prefix(1, Opcode.HELLO, 0, len(hello)) + hello)
        requests = b"".join(frame_prefix(n, LARGE, 0, 0) for n in range(2, 2000))
        await loop.sock_sendall(stuck, requests)  # two gigabytes, were they all answered
        await eventually(lambda: any(not session.is_writable for session in echo.server._sessions.values()))
        await asyncio.sleep(0.5)
        assert echo.answered_bytes <= 40 << 20
        # Others are served meanwhile.
        peer = await Peer.connect(host, port, client_id="other", timeout=HANG_S)
        assert (await peer.request(ECHO, b"hello", timeout=HANG_S)).header == b"hello"
        before = echo.answered_bytes
        received = 0
        async with asyncio.timeout(HANG_S):
            while received < 20 << 20:
                received += len(await loop.sock_recv(stuck, 1 << 20))
        await eventually(lambda: echo.answered_bytes > before)  # it continues once the client reads
        peer.close()
        stuck.close()

    _run(test)


def test_a_cancelled_connect_closes_its_socket() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            connecting = asyncio.create_task(Peer.connect(*silent.getsockname(), client_id="me", timeout=AGES_S))
            other, _ = await asyncio.to_thread(silent.accept)
            with other:
                other.setblocking(False)
                loop = asyncio.get_running_loop()
                assert await asyncio.wait_for(loop.sock_recv(other, 1000), HANG_S)  # HELLO: it waits for the answer
                connecting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await connecting
                while await asyncio.wait_for(loop.sock_recv(other, 1000), HANG_S):
                    pass  # the rest of HELLO, if there is one, and then the end

    asyncio.run(main())


def test_a_connect_that_times_out_has_one_reason() -> None:
    async def main() -> None:
        lost: list[Exception] = []
        with socket.create_server(("127.0.0.1", 0)) as silent:
            host, port = silent.getsockname()
            with pytest.raises(ConnectionLostError, match=r"did not answer within 0\.1 s"):
                await Peer.connect(host, port, client_id="me", timeout=0.1, on_lost=lost.append)
            other, _ = await asyncio.to_thread(silent.accept)
            with other:
                other.settimeout(HANG_S)
                while await asyncio.to_thread(other.recv, 1000):
                    pass  # the end of the connection was noticed here, too
        assert not lost

    asyncio.run(main())


def test_an_invalid_host_name_is_reported() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLostError, match="cannot reach"):
            await Peer.connect("x" * 70, 1, client_id="me")

    asyncio.run(main())


def test_listening_beyond_loopback_needs_insecure() -> None:
    async def main() -> None:
        for host in ("0.0.0.0", "::", "192.0.2.1"):  # noqa: S104
            with pytest.raises(InvalidArgumentError, match="--insecure"):
                await Echo().server.start(host, 0)
        echo = Echo()
        _, port = await echo.server.start("localhost", 0)
        with pytest.raises(AddressInUseError, match="cannot listen"):
            await Echo().server.start("127.0.0.1", port)
        with pytest.raises(InvalidArgumentError, match="cannot listen"):
            await Echo().server.start("192.0.2.1", 0, insecure=True)
        await echo.server.close()

    asyncio.run(main())


def test_the_answer_to_hello_has_the_limits() -> None:
    async def test(_echo: Echo, host: str, port: int) -> None:
        peer = await Peer.connect(host, port, client_id="me", timeout=HANG_S)
        assert peer.limits == HelloAnswer(version=1, max_frame_bytes=5000, software="test")
        with pytest.raises(ConnectionLostError):
            await peer.request(ECHO, b"", bytes(6000), timeout=HANG_S)

    _run(test, max_frame_bytes=5000)
