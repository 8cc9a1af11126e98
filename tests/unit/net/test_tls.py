"""Frames over TLS: only for clients that trust the certificate."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from litemq.errors import ConnectionLostError
from litemq.net import event_loop
from litemq.net.client import Peer
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, ServerLimits, Session
from support.waiting import HANG_S, eventually

ECHO = 100
AGES_MS = int(10 * HANG_S * 1000)  # what would take so long is not what a test waits for


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a key and a self-signed certificate in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command to make a certificate with")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        str(path),
        "-out",
        f"{path}.crt",
    ]
    subprocess.run(["openssl", "req", "-x509", "-days", "2", *key, *subject], check=True, capture_output=True)  # noqa: S607
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
        return event_loop.run  # type: ignore[return-value]
    return asyncio.run  # type: ignore[return-value]


def _server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def _echo(session: Session, frames: list[Frame]) -> None:
    for frame in frames:
        session.answer(frame, frame.header, frame.attachment)


async def _with_server(
    test: Callable[[int], Awaitable[None]],
    tls: ssl.SSLContext | None,
    host: str = "127.0.0.1",
    handshake_timeout_ms: int = AGES_MS,
) -> None:
    limits = ServerLimits(handshake_timeout_ms=handshake_timeout_ms, idle_timeout_ms=AGES_MS)
    server = FrameServer(_echo, software="test", limits=limits)
    _, port = await server.start(host, 0, tls=tls, insecure=True)
    try:
        await test(port)
        await eventually(lambda: server.sessions == 0)  # failed connections are removed
    finally:
        await server.close()


def test_frames_go_both_ways(certificate: Path, run: Callable[[Awaitable[None]], None]) -> None:
    async def test(port: int) -> None:
        trusted = ssl.create_default_context(cafile=certificate)
        peer = await Peer.connect("127.0.0.1", port, client_id="me", timeout=HANG_S, tls=trusted)
        answers = await asyncio.gather(*(peer.ask(ECHO, b"%d" % n, bytes(n)) for n in range(300)))
        assert [(answer.header, len(answer.attachment)) for answer in answers] == [(b"%d" % n, n) for n in range(300)]
        large = bytes(range(256)) * (32 << 10)
        assert (await peer.request(ECHO, b"", large, timeout=HANG_S)).attachment == large
        peer.close()

    run(_with_server(test, _server_side(certificate)))


def test_an_untrusted_certificate_is_refused(certificate: Path, run: Callable[[Awaitable[None]], None]) -> None:
    async def test(port: int) -> None:
        with pytest.raises(ConnectionLostError, match="CERTIFICATE_VERIFY_FAILED"):
            await Peer.connect("127.0.0.1", port, client_id="me", timeout=HANG_S, tls=ssl.create_default_context())
        trusted = ssl.create_default_context(cafile=certificate)
        with pytest.raises(ConnectionLostError, match="mismatch"):
            await Peer.connect(
                "127.0.0.2", port, client_id="me", timeout=HANG_S, tls=trusted
            )  # which the certificate does not name

    run(_with_server(test, _server_side(certificate), "0.0.0.0"))  # noqa: S104


def test_tls_on_one_side_only_is_reported(certificate: Path, run: Callable[[Awaitable[None]], None]) -> None:
    async def plain_client(port: int) -> None:
        with pytest.raises(ConnectionLostError):
            await Peer.connect("127.0.0.1", port, client_id="me", timeout=HANG_S)

    async def plain_server(port: int) -> None:
        with pytest.raises(ConnectionLostError):
            await Peer.connect(
                "127.0.0.1", port, client_id="me", timeout=HANG_S, tls=ssl.create_default_context(cafile=certificate)
            )

    run(_with_server(plain_client, _server_side(certificate)))
    run(_with_server(plain_server, None))


def test_a_client_that_never_starts_tls_is_closed(certificate: Path, run: Callable[[Awaitable[None]], None]) -> None:
    async def test(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), HANG_S) == b""
        writer.close()

    run(_with_server(test, _server_side(certificate), handshake_timeout_ms=500))
