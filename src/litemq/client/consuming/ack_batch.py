"""Acknowledging many messages at once."""

from __future__ import annotations

from collections.abc import Sequence

from litemq.client.messages.message import Message
from litemq.client.settling.settlements import Settlements
from litemq.errors import LiteMQError

__all__ = ["ack_batch"]


async def ack_batch(messages: Sequence[Message]) -> None:
    """Acknowledge all, and wait. Where some fail, the first error is raised, with a note that says which."""
    told: list[Settlements | LiteMQError | None] = []
    for message in messages:
        try:
            told.append(message._hand_in())  # noqa: SLF001  many of what ack() does
        except LiteMQError as error:
            told.append(error)
    # Those that travel together are answered together: this waits a few times, not for each.
    for settlements in {each for each in told if isinstance(each, Settlements)}:
        await settlements.wait_answered()
    errors: dict[int, LiteMQError] = {}
    for number, (message, outcome) in enumerate(zip(messages, told, strict=True)):
        if isinstance(outcome, LiteMQError):
            errors[number] = outcome
        elif outcome is not None and outcome.has_errors and (failed := outcome.error_of(message._place)) is not None:  # noqa: SLF001
            errors[number] = failed
    if errors:
        first = errors[min(errors)]
        first.add_note(
            f"{len(messages) - len(errors)} of {len(messages)} messages were settled; not those with the numbers {sorted(errors)[:20]}"
        )
        raise first
