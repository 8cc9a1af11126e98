"""Acknowledge many messages with few requests."""

from __future__ import annotations

from collections.abc import Sequence

from litemq.client.messages.message import Message
from litemq.client.settling.settlements import Settlements
from litemq.errors import InvalidArgumentError, LiteMQError

__all__ = ["ack_batch"]


async def ack_batch(messages: Sequence[Message]) -> None:
    """Acknowledge ``messages`` and wait until all are settled or have failed.

    Raises the first error, with a note that lists the failed messages.
    """
    if not isinstance(messages, Sequence) or not all(isinstance(message, Message) for message in messages):
        raise InvalidArgumentError(f"messages={messages!r:.80}: expected a list of received messages")
    outcomes: list[Settlements | LiteMQError | None] = []
    for message in messages:
        try:
            outcomes.append(message._start_ack())  # noqa: SLF001  the first half of ack()
        except LiteMQError as error:
            outcomes.append(error)
    # One request settles many messages: wait once for each request.
    for settlements in {each for each in outcomes if isinstance(each, Settlements)}:
        await settlements.wait_answered()
    errors: dict[int, LiteMQError] = {}
    for number, (message, outcome) in enumerate(zip(messages, outcomes, strict=True)):
        if isinstance(outcome, LiteMQError):
            errors[number] = outcome
        elif outcome is not None and outcome.has_errors:
            failed = outcome.error_for(message._position)  # noqa: SLF001
            if failed is not None:
                errors[number] = failed
    if errors:
        first = errors[min(errors)]
        first.add_note(
            f"{len(messages) - len(errors)} of {len(messages)} messages were settled; failed: "
            f"numbers {sorted(errors)[:20]}"
        )
        raise first
