"""A broker on one event loop, a client on another: requests and answers are handed from thread to thread, each way in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError
from litemq.net.connection import Bytes
from litemq.net.frame import Frame
from litemq.testing.local_channel import Service

__all__ = ["ServiceElsewhere"]


class ServiceElsewhere:
    """Stands before a service for one channel, on the channel's own loop."""

    def __init__(self, service: Service, there: asyncio.AbstractEventLoop) -> None:
        self._service = service
        self._here = asyncio.get_running_loop()
        self._there = there
        self._caller: CallerElsewhere | None = None

    def handle(self, caller: Caller, frames: list[Frame]) -> None:
        if self._caller is None:
            self._caller = CallerElsewhere(caller, self._here, self._service)
        _pass_on(self._there, self._service.handle, self._caller, frames)

    def gone(self, caller: Caller) -> None:  # noqa: ARG002  it is the one that asked
        if self._caller is not None:
            _pass_on(self._there, self._service.gone, self._caller)


class CallerElsewhere:
    """The same channel, as the service sees it from its own loop."""

    has_room = True

    def __init__(self, channel: Caller, here: asyncio.AbstractEventLoop, service: Service) -> None:
        self._channel = channel
        self._loop = here
        self._service = service
        self.client_id = channel.client_id
        self.peer = channel.peer

    def when_room(self, resume: Callable[[], None]) -> None:
        resume()

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"") -> None:
        # What the store lends is copied here, before the store goes on.
        self._tell(self._channel.answer, frame, header, bytes(attachment))

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        self._tell(self._channel.answer_sent, correlations, queue_offsets, store_timestamp)

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        self._tell(self._channel.refuse, frame, error)

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        if not _pass_on(self._loop, call, *arguments):
            self._service.gone(self)  # the client's loop ended, and the client with it


def _pass_on(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object) -> bool:
    """Call something on another loop; whether that loop is still there."""
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:  # it is closed
        return False
    return True
