"""Acknowledging many messages at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from litemq.client.messages import Message
from litemq.errors import LiteMQError

__all__ = ["ack_batch"]


async def ack_batch(messages: Sequence[Message]) -> None:
    """Acknowledge all, and wait. Where some fail, the first error is raised, with a note that says which."""
    outcomes: list[asyncio.Future[None] | LiteMQError] = []
    for message in messages:
        try:
            outcomes.append(message.ack_nowait())
        except LiteMQError as error:
            outcomes.append(error)
    errors: dict[int, BaseException] = {}
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, LiteMQError):
            errors[number] = outcome
            continue
        if not outcome.done():  # those that travel together are answered together: this waits a few times, not for each
            await asyncio.wait([outcome])
        if (failed := outcome.exception()) is not None:
            errors[number] = failed
    if errors:
        first = errors[min(errors)]
        first.add_note(
            f"{len(messages) - len(errors)} of {len(messages)} messages were settled; not those with the numbers {sorted(errors)[:20]}"
        )
        raise first
