"""A redrive that was started: how far it is, its end, and how to stop it before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from litemq.client.engine.dead_letters import DeadLetterBackend, RedriveProgress

__all__ = ["BrokerRedrive", "Redrive", "RedrivePart", "together"]

_WAIT_MS: Final = 5_000  # a question after an end that has not come yet

_STATES: Final = ("failed", "running", "cancelled", "done")  # the first that any broker is in is that of the whole


class RedrivePart(Protocol):
    """The letters of one topic on one broker."""

    async def follow(self, wait_ms: int) -> RedriveProgress: ...

    async def cancel(self) -> RedriveProgress: ...


class Redrive:
    """Dead letters on their way back. It goes on while nobody asks; asked for again, the same selection goes on with what is left."""

    def __init__(self, parts: Sequence[RedrivePart]) -> None:
        self._parts = parts

    async def progress(self) -> RedriveProgress:
        """How far it is."""
        return together([await part.follow(0) for part in self._parts])

    async def wait(self) -> RedriveProgress:
        """Wait for its end."""
        return together(await asyncio.gather(*map(_end, self._parts)))

    async def cancel(self) -> RedriveProgress:
        """Stop it where it is: what was sent on stays so."""
        return together([await part.cancel() for part in self._parts])


async def _end(part: RedrivePart) -> RedriveProgress:
    while not (progress := await part.follow(_WAIT_MS)).is_over:
        pass
    return progress


class BrokerRedrive:
    """A part that a broker does by itself."""

    def __init__(self, backend: DeadLetterBackend, broker: str, redrive_id: int) -> None:
        self._backend = backend
        self._broker = broker
        self._redrive_id = redrive_id

    async def follow(self, wait_ms: int) -> RedriveProgress:
        return await self._backend.follow(self._broker, self._redrive_id, wait_ms)

    async def cancel(self) -> RedriveProgress:
        return await self._backend.cancel(self._broker, self._redrive_id)


def together(parts: Sequence[RedriveProgress]) -> RedriveProgress:
    """Several brokers' progress as one."""
    if not parts:
        return RedriveProgress("done")
    return RedriveProgress(
        min((part.state for part in parts), key=_STATES.index),
        sum(part.letters for part in parts),
        sum(part.examined for part in parts),
        sum(part.selected for part in parts),
        sum(part.done for part in parts),
        sum(part.gone for part in parts),
        sum(part.expired for part in parts),
        sum(part.damaged for part in parts),
        sum(part.skipped for part in parts),
        "; ".join(sorted({part.problem for part in parts if part.problem})),
    )
