"""The base class of request channels: answers by callback, by future, or with a timeout."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from litemq.errors import LiteMQError, RequestTimeoutError
from litemq.net.connection import Bytes

__all__ = ["Answer", "AnswerCallback", "RequestChannel"]


class Answer(NamedTuple):
    """A server's answer, undecoded."""

    header: bytes
    attachment: bytes


# Called once per request, with the answer's header and attachment or with the error.
AnswerCallback = Callable[[bytes, bytes, LiteMQError | None], None]


class RequestChannel(ABC):
    """A channel to one server. Subclasses implement ``call``."""

    address: str

    @abstractmethod
    def call(self, opcode: int, header: bytes, attachment: Bytes, answered: AnswerCallback) -> None:
        """Send a request. Call ``answered`` once, on the answer or when the connection is lost."""

    def ask(self, opcode: int, header: bytes, attachment: Bytes = b"") -> asyncio.Future[Answer]:
        """Send a request and return a future of its answer or error."""
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

    async def request(
        self,
        opcode: int,
        header: bytes,
        attachment: Bytes = b"",
        *,
        timeout: float,  # noqa: ASYNC109
    ) -> Answer:
        """Send a request and wait up to ``timeout`` seconds. The channel drops a later answer."""
        try:
            async with asyncio.timeout(timeout):
                return await self.ask(opcode, header, attachment)
        except TimeoutError:
            raise RequestTimeoutError(f"{self.address} did not answer within {timeout:g} s") from None
