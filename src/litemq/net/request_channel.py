"""The base class of request channels: answers by callback, by future, or with a timeout."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from litemq.errors import LiteMQError, RequestTimeoutError
from litemq.net.connection import Bytes

__all__ = ["Answer", "AnswerCallback", "PartCallback", "RequestChannel"]


class Answer(NamedTuple):
    """A server's answer, undecoded."""

    header: bytes
    attachment: bytes


# Called once per request, with the answer's header and attachment or with the error.
AnswerCallback = Callable[[bytes, bytes, LiteMQError | None], None]
# Called for each part of an answer but the last, with its header and attachment.
PartCallback = Callable[[bytes, bytes], None]


class RequestChannel(ABC):
    """A channel to one server. Subclasses implement ``call``."""

    address: str

    @abstractmethod
    def call(
        self,
        opcode: int,
        header: bytes,
        attachment: Bytes,
        answered: AnswerCallback,
        on_part: PartCallback | None = None,
    ) -> None:
        """Send a request. Call ``answered`` once, on the answer or when the connection is lost.

        If the answer comes in parts, call ``on_part`` for each but the last.
        """

    def ask(
        self, opcode: int, header: bytes, attachment: Bytes = b"", on_part: PartCallback | None = None
    ) -> asyncio.Future[Answer]:
        """Send a request and return a future of its answer or error.

        ``on_part`` is not called after the future is done. If it raises, the future has the error.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answered(header: bytes, attachment: bytes, error: LiteMQError | None) -> None:
            if future.done():
                return  # the caller no longer waits
            if error is None:
                future.set_result(Answer(header, attachment))
            else:
                future.set_exception(error)

        def part(header: bytes, attachment: bytes) -> None:
            if on_part is None or future.done():
                return
            try:
                on_part(header, attachment)
            except Exception as error:  # noqa: BLE001  the caller gets it
                future.set_exception(error)

        self.call(opcode, header, attachment, answered, None if on_part is None else part)
        return future

    async def request(
        self,
        opcode: int,
        header: bytes,
        attachment: Bytes = b"",
        *,
        timeout: float,  # noqa: ASYNC109
        on_part: PartCallback | None = None,
    ) -> Answer:
        """Send a request and wait up to ``timeout`` seconds. The channel drops a later answer."""
        try:
            async with asyncio.timeout(timeout):
                return await self.ask(opcode, header, attachment, on_part)
        except TimeoutError:
            raise RequestTimeoutError(f"{self.address} did not answer within {timeout:g} s") from None
