"""The base of every channel that carries requests: a callback, a future or a timeout for each answer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from litemq.errors import LiteMQError, RequestTimeoutError
from litemq.net.connection import Bytes

__all__ = ["Answer", "AnswerCallback", "RequestChannel"]


class Answer(NamedTuple):
    """A server's answer, its parts still bytes."""

    header: bytes
    attachment: bytes


# The channel calls it once for each request: with the answer's header and attachment, or with the error that came instead.
AnswerCallback = Callable[[bytes, bytes, LiteMQError | None], None]


class RequestChannel(ABC):
    """A channel to one server; a subclass implements ``call``."""

    address: str

    @abstractmethod
    def call(self, opcode: int, header: bytes, attachment: Bytes, answered: AnswerCallback) -> None:
        """Send a request. The channel calls ``answered`` once: in the turn in which it reads the answer, or when the connection is lost."""

    def ask(self, opcode: int, header: bytes, attachment: Bytes = b"") -> asyncio.Future[Answer]:
        """Send a request and return a future of its answer, or of the error that the server answered with."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answered(header: bytes, attachment: bytes, error: LiteMQError | None) -> None:
            if future.done():
                return  # the caller no longer waits
            if error is None:
                future.set_result(Answer(header, attachment))
            else:
                future.set_exception(error)

        self.call(opcode, header, attachment, answered)
        return future

    async def request(self, opcode: int, header: bytes, attachment: Bytes = b"", *, timeout: float) -> Answer:  # noqa: ASYNC109
        """Send a request and wait for its answer. The channel drops an answer that comes after ``timeout``."""
        try:
            async with asyncio.timeout(timeout):
                return await self.ask(opcode, header, attachment)
        except TimeoutError:
            raise RequestTimeoutError(f"{self.address} did not answer within {timeout:g} s") from None
