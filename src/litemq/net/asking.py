"""Asking with a future, or for a limited time: the same over every kind of channel."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from litemq.errors import LiteMQError, RequestTimeoutError
from litemq.net.connection import Bytes

__all__ = ["Answer", "Answered", "Asking"]


class Answer(NamedTuple):
    """What a server answered, its parts still bytes."""

    header: bytes
    attachment: bytes


# Called once for each request: with the answer's header and attachment, or with the error that came instead.
Answered = Callable[[bytes, bytes, LiteMQError | None], None]


class Asking(ABC):
    """Somebody who can be asked."""

    address: str

    @abstractmethod
    def call(self, opcode: int, header: bytes, attachment: Bytes, answered: Answered) -> None:
        """Send a request; ``answered`` is called once: in the turn in which the answer is read, or when the connection is lost."""

    def ask(self, opcode: int, header: bytes, attachment: Bytes = b"") -> asyncio.Future[Answer]:
        """The same, with a future: the answer, or the error that it was answered with."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answered(header: bytes, attachment: bytes, error: LiteMQError | None) -> None:
            if future.done():
                return  # whoever asked no longer waits
            if error is None:
                future.set_result(Answer(header, attachment))
            else:
                future.set_exception(error)

        self.call(opcode, header, attachment, answered)
        return future

    async def request(self, opcode: int, header: bytes, attachment: Bytes = b"", *, timeout: float) -> Answer:  # noqa: ASYNC109
        """The same, waited for. An answer that comes after the timeout is thrown away."""
        try:
            async with asyncio.timeout(timeout):
                return await self.ask(opcode, header, attachment)
        except TimeoutError:
            raise RequestTimeoutError(f"{self.address} did not answer within {timeout:g} s") from None
