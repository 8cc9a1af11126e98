"""A running redrive or purge: follow its progress, wait for it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from litemq.client.engine.dead_letters import DeadLetterEngine, RedriveProgress

__all__ = ["BrokerRedrive", "Redrive", "RedrivePart", "combined_progress"]

_WAIT_MS: Final = 5_000  # how long a broker holds a request for the end

_STATES: Final = (
    "failed",
    "running",
    "cancelled",
    "done",
)  # the first of these that any part has is the state of the whole


class RedrivePart(Protocol):
    """The redrive of one topic on one broker."""

    async def follow(self, wait_ms: int) -> RedriveProgress: ...

    async def cancel(self) -> RedriveProgress: ...


class Redrive:
    """A running redrive or purge. To continue a cancelled or failed one, start it again."""

    def __init__(self, parts: Sequence[RedrivePart], missing: Mapping[str, str] = MappingProxyType({})) -> None:
        self._parts = parts
        self._missing = missing

    @property
    def missing(self) -> Mapping[str, str]:
        """The brokers that did not answer, with the reasons. Their dead letters stay."""
        return self._missing

    async def progress(self) -> RedriveProgress:
        """Return the progress of all brokers together.

        Raises:
            InvalidArgumentError: A broker does not know the redrive any more, or a result of the
                transform is invalid.
            NetworkError: A broker did not answer.
            Exception: An error of the transform.
        """
        return combined_progress([await part.follow(0) for part in self._parts])

    async def wait(self) -> RedriveProgress:
        """Wait for the end, and return the final progress.

        Its ``state`` is ``done``, ``cancelled`` or ``failed``.

        Raises:
            InvalidArgumentError: A broker does not know the redrive any more, or a result of the
                transform is invalid.
            NetworkError: A broker did not answer.
            Exception: An error of the transform.
        """
        return combined_progress(await asyncio.gather(*map(_wait_end, self._parts)))

    async def cancel(self) -> RedriveProgress:
        """Stop the redrive, and return its progress. Messages that were sent back stay so.

        Raises:
            InvalidArgumentError: A broker does not know the redrive any more.
            NetworkError: A broker did not answer.
        """
        return combined_progress([await part.cancel() for part in self._parts])


async def _wait_end(part: RedrivePart) -> RedriveProgress:
    while not (progress := await part.follow(_WAIT_MS)).is_over:
        pass
    return progress


class BrokerRedrive:
    """A part that runs on the broker."""

    def __init__(self, engine: DeadLetterEngine, broker: str, redrive_id: int) -> None:
        self._engine = engine
        self._broker = broker
        self._redrive_id = redrive_id

    async def follow(self, wait_ms: int) -> RedriveProgress:
        return await self._engine.follow(self._broker, self._redrive_id, wait_ms)

    async def cancel(self) -> RedriveProgress:
        return await self._engine.cancel(self._broker, self._redrive_id)


def combined_progress(parts: Sequence[RedriveProgress]) -> RedriveProgress:
    """Combine the progress of several brokers."""
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
