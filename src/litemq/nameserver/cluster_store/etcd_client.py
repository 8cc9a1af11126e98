"""A client for etcd: requests with a deadline at one of several endpoints, leases, and watches.

If an endpoint does not answer, the client repeats the request at the next one. Every request that
the cluster store makes may be repeated: reads, compare-and-sets, and leases that end by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

from google.protobuf.message import Message

from litemq.errors import ClusterStoreError, ClusterStoreUnavailableError, InvalidArgumentError, MissingExtraError
from litemq.proto.etcd_pb2 import (
    Event,
    LeaseGrantRequest,
    LeaseGrantResponse,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseRevokeRequest,
    LeaseRevokeResponse,
    RangeRequest,
    RangeResponse,
    ResponseHeader,
    TxnRequest,
    TxnResponse,
    WatchCreateRequest,
    WatchRequest,
    WatchResponse,
)

try:
    import grpc
except ImportError:
    raise MissingExtraError("the cluster store etcd", "etcd") from None

__all__ = ["EtcdClient", "TxnAnswer", "end_of_prefix"]

_ENDPOINT: Final = re.compile(r"[A-Za-z0-9_.\-]{1,253}:\d{1,5}|\[[0-9A-Fa-f:.%]{2,64}\]:\d{1,5}", re.ASCII)
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Detects a dead host under a watch. etcd closes connections that ping more than every 5 s.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_NEEDS_LEADER: Final = (("hasleader", "true"),)  # a member without a leader refuses, and ends its watches
_PAUSE_S: Final = 0.1  # after each endpoint has failed once
# With any other code, etcd has refused the request and changed nothing.
_NO_ANSWER: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
}
T = TypeVar("T")
M = TypeVar("M", bound=Message)


class TxnAnswer(NamedTuple):
    """The answer to a transaction. If it is repeated, an earlier attempt may have been made."""

    response: TxnResponse
    is_repeated: bool


class EtcdClient:
    """Connections to the members of one etcd cluster, for one event loop.

    A request fails after ``timeout_s``; before that, each endpoint has ``attempt_s`` to answer.
    """

    def __init__(self, endpoints: Sequence[str], *, timeout_s: float = 5.0, attempt_s: float = 2.0) -> None:
        if not endpoints:
            raise InvalidArgumentError("etcd needs at least one endpoint, such as 127.0.0.1:2379")
        for endpoint in endpoints:
            if not _ENDPOINT.fullmatch(endpoint):
                raise InvalidArgumentError(f"etcd endpoint {endpoint[:300]!r}: use HOST:PORT")
        self._endpoints = tuple(dict.fromkeys(endpoints))
        self._timeout_s, self._attempt_s = timeout_s, attempt_s
        self._current = 0
        self._channels: dict[int, Any] = {}
        self._calls: set[Any] = set()  # in flight: closing a channel does not end a call that a generator awaits
        self._is_closed = False
        self.cluster_id = 0  # known after the first read

    @property
    def endpoints(self) -> tuple[str, ...]:
        return self._endpoints

    async def range(self, key: bytes, range_end: bytes = b"") -> RangeResponse:
        """Read keys; no acknowledged write before this call is missing."""
        request = RangeRequest(key=key, range_end=range_end)
        response, _ = await self._call("KV/Range", request, RangeResponse)
        self.cluster_id = response.header.cluster_id
        return response

    async def txn(self, request: TxnRequest) -> TxnAnswer:
        """Commit a transaction.

        ``ClusterStoreUnavailableError``: etcd may have made it, or may still make it.
        """
        return TxnAnswer(*await self._call("KV/Txn", request, TxnResponse))

    async def grant(self, ttl_s: int) -> int:
        """Create a lease of at least ``ttl_s``; return its id."""
        response, _ = await self._call("Lease/LeaseGrant", LeaseGrantRequest(TTL=ttl_s), LeaseGrantResponse)
        if response.error or not response.ID:
            raise ClusterStoreError(f"etcd grants no lease: {response.error}")
        return response.ID

    async def revoke(self, lease: int) -> None:
        """End a lease; its keys are deleted."""
        await self._call("Lease/LeaseRevoke", LeaseRevokeRequest(ID=lease), LeaseRevokeResponse)

    async def keep_alive(self, lease: int) -> int:
        """Renew a lease; return its duration in seconds, or 0 if it has ended."""

        async def attempt(channel: Any, timeout_s: float) -> LeaseKeepAliveResponse:
            request = LeaseKeepAliveRequest(ID=lease)
            with self._stream(channel, "Lease/LeaseKeepAlive", request, LeaseKeepAliveResponse, timeout_s) as stream:
                response = await stream.read()
            if response is grpc.aio.EOF:
                raise ClusterStoreUnavailableError("etcd ended the stream of keep-alives")
            assert isinstance(response, LeaseKeepAliveResponse)  # noqa: S101  grpc has no types
            return response

        return (await self._attempt(attempt))[0].TTL

    async def watch(self, prefix: bytes, read: ResponseHeader) -> AsyncGenerator[list[Event], None]:
        """Iterate over the changes of keys since a read with the header ``read``.

        Each list has those of one revision. The first is empty: etcd has begun the watch. Raise
        ``ClusterStoreUnavailableError`` if the watch breaks: read the keys again, since etcd may
        come back without its data, even with the same cluster id. End when the client is closed.
        """
        at = self._current
        create = WatchCreateRequest(key=prefix, range_end=end_of_prefix(prefix), start_revision=read.revision + 1)
        request = WatchRequest(create_request=create)
        try:
            with self._stream(self._channel(at), "Watch/Watch", request, WatchResponse) as stream:
                while isinstance(response := await stream.read(), WatchResponse):
                    _check_watch(response, read)
                    if response.created:
                        yield []
                    for _, events in itertools.groupby(response.events, lambda event: event.kv.mod_revision):
                        yield list(events)
            reason = "etcd ended it"
        except grpc.aio.AioRpcError as error:
            reason = str(error.details() or error.code())
        except _WatchRefusedError as error:
            reason = str(error)
        except asyncio.CancelledError:
            if not self._cancelled_by_close():
                raise
            return
        self._leave(at)
        raise ClusterStoreUnavailableError(f"the watch at etcd {self._endpoints[at]} broke: {reason[:200]}")

    async def close(self) -> None:
        """Close all connections. Requests in flight fail, watches end."""
        self._is_closed = True
        for call in list(self._calls):
            call.cancel()
        for channel in self._channels.values():
            await channel.close()

    async def _call(self, method: str, request: Message, answer: type[M]) -> tuple[M, bool]:
        async def attempt(channel: Any, timeout_s: float) -> M:
            call = channel.unary_unary(
                f"/etcdserverpb.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )(request, timeout=timeout_s, metadata=_NEEDS_LEADER)
            with self._in_flight(call):
                response = await call
            assert isinstance(response, answer)  # noqa: S101  grpc has no types
            return response

        return await self._attempt(attempt)

    async def _attempt(self, attempt: Callable[[Any, float], Awaitable[T]]) -> tuple[T, bool]:
        """Return the first answer of an endpoint, and whether there were attempts before."""
        now = asyncio.get_running_loop().time
        until = now() + self._timeout_s
        failures: dict[str, str] = {}
        for number in itertools.count(1):
            if self._is_closed:
                raise ClusterStoreUnavailableError("the cluster store is closed")
            at = self._current
            try:
                answer = await attempt(self._channel(at), max(0.001, min(self._attempt_s, until - now())))
                return answer, bool(failures)
            except grpc.aio.AioRpcError as error:
                # No refusal is definite if an earlier attempt without an answer may have arrived.
                if error.code() not in _NO_ANSWER and not failures:
                    raise ClusterStoreError(f"etcd {self._endpoints[at]} refused: {error.details()}") from error
                failures[self._endpoints[at]] = str(error.details() or error.code())[:200]
            except ClusterStoreUnavailableError as error:
                failures[self._endpoints[at]] = str(error)
            except asyncio.CancelledError:
                if not self._cancelled_by_close():
                    raise
                failures[self._endpoints[at]] = "closed"
            self._leave(at)
            if now() >= until:
                break
            if number % len(self._endpoints) == 0:
                await asyncio.sleep(_PAUSE_S)
        reasons = "; ".join(f"{endpoint}: {reason}" for endpoint, reason in failures.items())
        raise ClusterStoreUnavailableError(f"no answer from etcd within {self._timeout_s:g} s ({reasons})")

    @contextlib.contextmanager
    def _stream(
        self, channel: Any, method: str, request: Message, answer: type[Message], timeout_s: float | None = None
    ) -> Iterator[Any]:
        """Open a stream of answers to one ``request``; it ends with this block."""
        requests = _OneRequest(request)
        stream = channel.stream_stream(
            f"/etcdserverpb.{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )(requests, timeout=timeout_s, metadata=_NEEDS_LEADER)
        try:
            with self._in_flight(stream):
                yield stream
        finally:
            requests.end()

    @contextlib.contextmanager
    def _in_flight(self, call: Any) -> Iterator[None]:
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            call.cancel()  # does nothing if it has ended

    def _cancelled_by_close(self) -> bool:
        """Return whether ``close`` cancelled a call, which the caller sees as its own."""
        task = asyncio.current_task()
        return self._is_closed and (task is None or not task.cancelling())

    def _channel(self, at: int) -> Any:
        channel = self._channels.get(at)
        if channel is None:
            channel = self._channels[at] = grpc.aio.insecure_channel(self._endpoints[at], options=_OPTIONS)
        return channel

    def _leave(self, at: int) -> None:
        """Use the next endpoint from now on, unless another request has already left ``at``."""
        if self._current == at:
            self._current = (at + 1) % len(self._endpoints)


class _WatchRefusedError(Exception):
    """etcd does not have the changes that a watch needs."""


def _check_watch(response: WatchResponse, read: ResponseHeader) -> None:
    """Raise unless the watch can show all changes since ``read``."""
    if response.compact_revision:
        raise _WatchRefusedError(f"the changes after revision {read.revision} were compacted")
    if response.canceled:
        raise _WatchRefusedError(response.cancel_reason)
    if response.created and response.header.cluster_id != read.cluster_id:
        raise _WatchRefusedError("it belongs to another etcd cluster than the member that was read")
    if response.created and response.header.revision < read.revision:  # it would wait for that revision
        raise _WatchRefusedError(
            f"it is at revision {response.header.revision}, and revision {read.revision} was read: this member is "
            "behind, or has lost its data"
        )


class _OneRequest:
    """The requests of a stream: one message, and no end before ``end``.

    ``stream.write`` would wait forever if the call is cancelled before it is connected. If a call
    fails, grpc leaves a task behind that waits for the next message.
    """

    def __init__(self, message: Message) -> None:
        self._unsent = [message]
        self._is_over = asyncio.Event()

    def end(self) -> None:
        self._is_over.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        if self._unsent:
            return self._unsent.pop()
        await self._is_over.wait()
        raise StopAsyncIteration


def end_of_prefix(prefix: bytes) -> bytes:
    """Return the end of the range of all keys that begin with ``prefix``."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
