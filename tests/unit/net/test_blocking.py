"""The blocking connection: pipelined answers, errors with their class, timeouts and disconnects."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from litemq.errors import ConnectionLostError, OffsetOutOfRangeError, ProtocolError, RequestTimeoutError
from litemq.net.blocking import BlockingPeer
from litemq.net.frame import Flag, Frame, frame_prefix
from litemq.net.server import FrameServer, Session
from litemq.proto.wire_pb2 import Opcode
from support.waiting import HANG_S

ECHO, FAIL, NEVER, BACKWARDS, CLOSE = range(100, 105)


@contextmanager
def running(handle: Callable[[Session, list[Frame]], None]) -> Iterator[tuple[str, int]]:
    """Run a server on its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = FrameServer(handle, software="test")
    try:
        yield asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(HANG_S)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(HANG_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    held: list[Frame] = []

    def handle(session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.opcode == ECHO:
                session.answer(frame, frame.header, frame.attachment)
            elif frame.opcode == FAIL:
                session.refuse(frame, OffsetOutOfRangeError("nothing there"))
            elif frame.opcode == BACKWARDS:
                held.append(frame)
                if len(held) == 3:
                    while held:
                        last = held.pop()
                        session.answer(last, last.header, last.attachment)

    with running(handle) as address:
        yield address


def test_an_answer_of_any_size_arrives_complete(address: tuple[str, int]) -> None:
    with BlockingPeer(*address, client_id="t") as peer:
        for size in (0, 1, 70_000, 5_000_000):
            header, attachment = peer.request(ECHO, b"header", [b"a" * size, b"", memoryview(b"end")])
            assert header == b"header"
            assert bytes(attachment) == b"a" * size + b"end"


def test_answers_arrive_in_any_order(address: tuple[str, int]) -> None:
    with BlockingPeer(*address, client_id="t") as peer:
        numbers = [peer.ask(BACKWARDS, str(i).encode()) for i in range(3)]
        assert [peer.answer(number).header for number in numbers] == [b"0", b"1", b"2"]


def test_a_forgotten_answer_is_dropped(address: tuple[str, int]) -> None:
    with BlockingPeer(*address, client_id="t") as peer:
        unwanted = peer.ask(ECHO, b"1")
        peer.forget(unwanted)
        assert peer.request(ECHO, b"2").header == b"2"
        with pytest.raises(ProtocolError, match="was never sent or is already answered"):
            peer.answer(unwanted)


def test_an_error_keeps_its_class(address: tuple[str, int]) -> None:
    with BlockingPeer(*address, client_id="t") as peer:
        with pytest.raises(OffsetOutOfRangeError, match="nothing there"):
            peer.request(FAIL, b"")
        assert peer.request(ECHO, b"on").header == b"on"


def test_a_silent_server_raises_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        ours = socket.create_connection(address)
        theirs, _ = listener.accept()
    with theirs:
        # The greeting is sent in advance: however busy the machine is, that answer is not late.
        theirs.sendall(frame_prefix(1, Opcode.HELLO, Flag.ANSWER, 0))
        monkeypatch.setattr(socket, "create_connection", lambda *_, **__: ours)
        with (
            BlockingPeer(*address, client_id="t", answer_timeout=0.1) as peer,
            pytest.raises(RequestTimeoutError, match=r"within 0\.1 s"),
        ):
            peer.request(NEVER, b"")


def test_an_unreachable_server_is_reported() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(ConnectionLostError, match=f"cannot reach 127.0.0.1:{port}"):
        BlockingPeer("127.0.0.1", port, client_id="t")


@contextmanager
def saying(data: bytes) -> Iterator[tuple[str, int]]:
    """Run a server that answers HELLO, and sends ``data`` as the answer to the first request."""

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            length, correlation = struct.unpack(">II", peer.recv(8, socket.MSG_WAITALL))
            peer.recv(length - 4, socket.MSG_WAITALL)
            peer.sendall(frame_prefix(correlation, 1, Flag.ANSWER, 0))
            peer.recv(1)
            peer.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (frame_prefix(2, ECHO, Flag.ANSWER, 10)[:12], ConnectionLostError),
        (frame_prefix(2, ECHO, 0, 0), ProtocolError),
        (struct.pack(">IIHHI", 1 << 31, 2, ECHO, 1, 0), ProtocolError),
        (struct.pack(">IIHHI", 12, 2, ECHO, 1, 5), ProtocolError),
        (b"", ConnectionLostError),
    ],
)
def test_invalid_bytes_end_the_connection(data: bytes, error: type[Exception]) -> None:
    with saying(data) as address, BlockingPeer(*address, client_id="t") as peer:
        with pytest.raises(error):
            peer.request(ECHO, b"")
        with pytest.raises(ConnectionLostError):
            peer.request(ECHO, b"")
