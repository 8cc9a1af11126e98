"""Acknowledge many messages with few requests."""

from __future__ import annotations

from collections.abc import Sequence

from litemq.client.messages.message import Message
from litemq.client.messages.received import mark_settled, offset_runs
from litemq.client.settling.settlements import Settlements
from litemq.errors import InvalidArgumentError, LiteMQError

__all__ = ["ack_batch"]


async def ack_batch(messages: Sequence[Message]) -> None:
    """Acknowledge ``messages`` and wait until all are settled or have failed.

    Raises the first error, with a note that lists the failed messages.
    """
    if not isinstance(messages, Sequence) or not all(issubclass(kind, Message) for kind in set(map(type, messages))):
        raise InvalidArgumentError(f"messages={messages!r:.80}: expected a list of received messages")
    messages = list(messages)
    outcomes: dict[int, Settlements | LiteMQError] = {}
    has_repeats = len(set(messages)) < len(messages)  # the second of two acks is an error
    for source, begin, end, offset, settled in offset_runs(messages):
        try:
            if not settled and not has_repeats and source.ack_run(offset, end - begin):
                mark_settled(messages, begin, end)
                continue
        except LiteMQError:
            pass  # each message raises it
        _start_acks(messages, begin, end, outcomes)
    # One request settles many messages: wait once for each request.
    for settlements in {each for each in outcomes.values() if isinstance(each, Settlements)}:
        await settlements.wait_answered()
    errors: dict[int, LiteMQError] = {}
    for number, outcome in outcomes.items():
        if isinstance(outcome, LiteMQError):
            errors[number] = outcome
        elif outcome.has_errors:
            failed = outcome.error_for(messages[number]._position)  # noqa: SLF001
            if failed is not None:
                errors[number] = failed
    if errors:
        first = errors[min(errors)]
        first.add_note(
            f"{len(messages) - len(errors)} of {len(messages)} messages were settled; failed: "
            f"numbers {sorted(errors)[:20]}"
        )
        raise first


def _start_acks(messages: list[Message], begin: int, end: int, outcomes: dict[int, Settlements | LiteMQError]) -> None:
    """Acknowledge messages one by one; note what there is to wait for, and the errors."""
    for number in range(begin, end):
        try:
            settlements = messages[number]._start_ack()  # noqa: SLF001  the first half of ack()
        except LiteMQError as error:
            outcomes[number] = error
        else:
            if settlements is not None:
                outcomes[number] = settlements
