"""A connection that reconnects: waiting for it, losing it, giving it up and closing it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from litemq.client.config import ClientConfig
from litemq.client.transport.channel import NO_ATTEMPT, Answer, Attempt, PartCallback
from litemq.client.transport.connection import BrokerConnection
from litemq.errors import ClientClosedError, ConnectionLostError, LiteMQError, RequestTimeoutError
from support.on_loop import on_loop

_CONFIG = ClientConfig(retry_backoff_ms=1, max_retry_backoff_ms=2)


class _FakeChannel:
    def __init__(self, on_lost: Callable[[LiteMQError], None]) -> None:
        self.is_open = True
        self.is_silent = False
        self._on_lost = on_lost

    async def request(
        self,
        opcode: int,
        header: bytes,
        attachment: bytes = b"",
        *,
        timeout: float,  # noqa: ASYNC109
        on_part: PartCallback | None = None,
    ) -> Answer:
        assert on_part is None
        if self.is_silent:
            raise RequestTimeoutError(f"no answer within {timeout} s")
        return Answer(bytes([opcode]) + header, attachment)

    def close(self) -> None:
        self.is_open = False

    def abort(self, reason: LiteMQError) -> None:
        self.is_open = False
        self._on_lost(reason)


class _FakeServer:
    """Accepts connections after ``failures`` attempts that fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.addresses: list[tuple[str, int]] = []
        self.channels: list[_FakeChannel] = []
        self.attempts: list[Attempt] = []

    async def connect(
        self, host: str, port: int, *, on_lost: Callable[[LiteMQError], None], attempt: Attempt = NO_ATTEMPT, **_: Any
    ) -> Any:
        self.addresses.append((host, port))
        self.attempts.append(attempt)
        if len(self.addresses) <= self.failures:
            raise ConnectionLostError("refused")
        self.channels.append(_FakeChannel(on_lost))
        return self.channels[-1]


def _connection(server: _FakeServer, address: Callable[[], tuple[str, int]] = lambda: ("h", 1)) -> BrokerConnection:
    return BrokerConnection("broker-a", address, server.connect, _CONFIG)


@on_loop
async def test_a_probe_does_not_wait_for_a_second_attempt() -> None:
    server = _FakeServer(failures=1)
    connection = _connection(server)
    with pytest.raises(ConnectionLostError, match="refused"):
        await connection.probe(60)
    await connection.probe(60)  # the connection is made in the background meanwhile
    server.channels[0].is_silent = True
    with pytest.raises(RequestTimeoutError):
        await connection.probe(60)
    await connection.close()
    with pytest.raises(ClientClosedError):
        await connection.probe(60)


@on_loop
async def test_a_probe_ends_in_time() -> None:
    async def connect(*_arguments: object, **_options: object) -> Any:
        await asyncio.Event().wait()

    connection = BrokerConnection("broker-a", lambda: ("h", 1), connect, _CONFIG)
    with pytest.raises(ConnectionLostError, match=r"no answer from broker-a within 0.01 s"):
        await connection.probe(0.01)
    await connection.close()


@on_loop
async def test_a_request_waits_for_a_connection_and_the_address_is_read_before_each_attempt() -> None:
    server = _FakeServer(failures=2)
    ports = iter([1, 2, 3])
    connection = _connection(server, lambda: ("h", next(ports)))
    assert await connection.request(17, b"header", b"records") == Answer(b"\x11header", b"records")
    assert server.addresses == [("h", 1), ("h", 2), ("h", 3)]
    assert connection.failure is None
    await connection.close()


@on_loop
async def test_its_attempts_have_one_random_id_and_rising_numbers() -> None:
    server = _FakeServer(failures=2)
    connection, other = _connection(server), _connection(_FakeServer())
    await connection.wait_open(1)
    server.channels[0].abort(ConnectionLostError("gone"))
    await connection.wait_open(1)
    assert [attempt.number for attempt in server.attempts] == [1, 2, 3, 4]
    (lasting_id,) = {attempt.lasting_id for attempt in server.attempts}
    assert len(lasting_id) == 16
    assert lasting_id != other._attempt.lasting_id
    await connection.close()


@on_loop
async def test_without_a_connection_the_error_says_why() -> None:
    connection = _connection(_FakeServer(failures=1000))
    with pytest.raises(ConnectionLostError, match=r"no connection to broker-a within 0\.05 s: refused"):
        await connection.wait_open(0.05)
    await connection.close()


@on_loop
async def test_only_an_unanswered_vital_request_makes_another_connection() -> None:
    server = _FakeServer()
    connection = _connection(server)
    await connection.wait_open(1)
    server.channels[0].is_silent = True
    with pytest.raises(RequestTimeoutError):
        await connection.request(1, b"")
    assert connection.is_open
    with pytest.raises(RequestTimeoutError):
        await connection.request(1, b"", vital=True)
    assert connection.gave_up
    await connection.wait_open(1)
    assert [channel.is_open for channel in server.channels] == [False, True]
    await connection.close()


@on_loop
async def test_a_lost_connection_is_made_again_if_a_callback_waits_for_it() -> None:
    server = _FakeServer()
    connection = _connection(server)
    opened = asyncio.Event()
    connection.on_open.append(opened.set)
    await connection.wait_open(1)
    assert opened.is_set()
    opened.clear()
    server.channels[0].abort(ConnectionLostError("reset by peer"))
    await asyncio.wait_for(opened.wait(), 10)
    assert len(server.channels) == 2
    await connection.close()
    assert not server.channels[1].is_open


@on_loop
async def test_closing_fails_waiters_and_later_requests() -> None:
    connection = _connection(_FakeServer(failures=1000))
    waiter = asyncio.ensure_future(connection.wait_open(10))
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(ClientClosedError):
        await waiter
    with pytest.raises(ClientClosedError):
        await connection.request(1, b"")
