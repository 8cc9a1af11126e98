"""Batches of messages that are processed and settled together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from litemq.client.messages.message import Message

__all__ = ["processing"]


def processing(messages: Sequence[Message]) -> AbstractAsyncContextManager[object]:
    """Return ``message.process()`` for all ``messages``, whose settlements share requests."""
    return messages[0].process() if len(messages) == 1 else _BatchProcessing(messages)


class _BatchProcessing(AbstractAsyncContextManager[None]):
    """The combined ``process()`` blocks of several messages."""

    __slots__ = ("_blocks",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self._blocks = [message.process() for message in messages]

    async def __aenter__(self) -> None:
        await asyncio.gather(*(block.__aenter__() for block in self._blocks))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        ended = await asyncio.gather(
            *(block.__aexit__(kind, error, traceback) for block in self._blocks), return_exceptions=True
        )
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome
        return any(outcome is True for outcome in ended)
