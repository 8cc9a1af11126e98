"""The bridge between a broker and a client on different event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError
from litemq.net.connection import Bytes
from litemq.net.frame import Frame
from litemq.testing.local_channel import Service

__all__ = ["RemoteService"]


class RemoteService:
    """A service on another loop, as one channel sees it from its own loop."""

    def __init__(self, service: Service, service_loop: asyncio.AbstractEventLoop) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._service_loop = service_loop
        self._caller: RemoteCaller | None = None

    def handle(self, caller: Caller, frames: list[Frame]) -> None:
        if self._caller is None:
            self._caller = RemoteCaller(caller, self._loop, self._service)
        _call_on(self._service_loop, self._service.handle, self._caller, frames)

    def caller_gone(self, caller: Caller) -> None:  # noqa: ARG002  it is the only one
        if self._caller is not None:
            _call_on(self._service_loop, self._service.caller_gone, self._caller)


class RemoteCaller:
    """A channel on another loop, as the service sees it from its own loop."""

    is_writable = True

    def __init__(self, channel: Caller, loop: asyncio.AbstractEventLoop, service: Service) -> None:
        self._channel = channel
        self._loop = loop
        self._service = service
        self.client_id = channel.client_id
        self.peer = channel.peer

    def on_writable(self, resume: Callable[[], None]) -> None:
        resume()

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"", *, more: bool = False) -> None:
        # A copy: the store reuses the memory of an attachment.
        self._call(partial(self._channel.answer, more=more), frame, header, bytes(attachment))

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        self._call(self._channel.answer_sent, correlations, queue_offsets, store_timestamp)

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        self._call(self._channel.refuse, frame, error)

    def _call(self, call: Callable[..., None], *arguments: object) -> None:
        if not _call_on(self._loop, call, *arguments):
            self._service.caller_gone(self)  # the client's loop is closed


def _call_on(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object) -> bool:
    """Call ``call`` on another loop. Return ``False`` if that loop is closed."""
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:  # it is closed
        return False
    return True
