"""What a client has given up never overtakes what it sends on its next connection."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from litemq.errors import ConnectionLostError, OverloadedError, ProtocolError
from litemq.net import server as server_module
from litemq.net.client import Attempt, Peer
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, Session
from support.waiting import HANG_S, eventually

REFUSED, NOTED = 100, 101


class _Notes:
    """A server that notes requests; after it has refused one, it reads no more from that client."""

    def __init__(self) -> None:
        self.noted: list[bytes] = []
        self.gone = 0
        self.server = FrameServer(self._handle, software="test", on_session_end=self._left)

    def _left(self, _session: Session) -> None:
        self.gone += 1

    def _handle(self, session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.opcode == REFUSED:
                session.refuse(frame, OverloadedError("not now"))
            else:
                self.noted.append(frame.header)
                session.answer(frame, b"")


def _run(test: Callable[[_Notes, str, int], Awaitable[None]]) -> None:
    async def main() -> None:
        notes = _Notes()
        host, port = await notes.server.start("127.0.0.1", 0)
        try:
            await test(notes, host, port)
        finally:
            await notes.server.close()

    asyncio.run(main())


async def _connect(host: str, port: int, attempt: Attempt) -> Peer:
    return await Peer.connect(host, port, client_id="me", timeout=HANG_S, attempt=attempt)


def test_what_an_earlier_connection_has_not_read_is_never_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_OVERLOAD_PAUSE_S", 0.5)  # reads nothing, as if the process were stopped

    async def test(notes: _Notes, host: str, port: int) -> None:
        first = await _connect(host, port, Attempt(b"lasting", 1))
        with pytest.raises(OverloadedError):
            await first.request(REFUSED, b"", timeout=HANG_S)
        lost = first.ask(NOTED, b"given up")
        await asyncio.sleep(0)  # written
        second = await _connect(host, port, Attempt(b"lasting", 2))
        await second.request(NOTED, b"later", timeout=HANG_S)
        with pytest.raises(ConnectionLostError):
            await asyncio.wait_for(lost, HANG_S)
        await eventually(lambda: notes.gone == 1)
        await second.request(NOTED, b"last", timeout=HANG_S)
        assert notes.noted == [b"later", b"last"]

    _run(test)


def test_an_attempt_that_arrives_late_does_not_end_a_later_connection() -> None:
    async def test(notes: _Notes, host: str, port: int) -> None:
        latest = await _connect(host, port, Attempt(b"lasting", 2))
        with pytest.raises(ConnectionLostError, match="has connected again since this attempt"):
            await _connect(host, port, Attempt(b"lasting", 1))
        await latest.request(NOTED, b"still open", timeout=HANG_S)
        assert notes.noted == [b"still open"]

    _run(test)


def test_connections_of_other_ids_and_without_one_stay_open() -> None:
    async def test(notes: _Notes, host: str, port: int) -> None:
        peers = [
            await _connect(host, port, attempt)
            for attempt in (Attempt(b"one", 1), Attempt(b"two", 2), Attempt(b"", 0), Attempt(b"", 0))
        ]
        for peer in peers:
            await peer.request(NOTED, b"x", timeout=HANG_S)
        assert len(notes.noted) == 4

    _run(test)


def test_the_server_forgets_connections_that_have_ended() -> None:
    async def test(notes: _Notes, host: str, port: int) -> None:
        for number in (1, 2):
            peer = await _connect(host, port, Attempt(b"lasting", number))
        peer.close()
        await eventually(lambda: notes.server.sessions == 0)
        assert not notes.server._lasting
        await (await _connect(host, port, Attempt(b"lasting", 1))).request(NOTED, b"", timeout=HANG_S)

    _run(test)


def test_an_id_that_is_too_long_is_refused() -> None:
    async def test(_notes: _Notes, host: str, port: int) -> None:
        with pytest.raises(ProtocolError, match="at most 16 bytes"):
            await _connect(host, port, Attempt(bytes(17), 1))

    _run(test)
