"""The log of failed calls: an attempt is a warning, the last one an error with its consequence.

The first attempt and the last have a traceback, which begins at the handler. The attempts between
them have one line each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path
from types import TracebackType
from typing import Final

from litemq.client.handlers.outcome import judge_failure
from litemq.client.handlers.subscription import Subscription
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import Failure, Verdict, one_line
from litemq.client.settling.retry_policy import Retry

__all__ = ["log_failure"]

# Calls between the runner and the handler.
_BETWEEN: Final = tuple(
    str(path) for path in (Path(__file__).parents[2], *map(Path, (*asyncio.__path__, *futures.__path__)))
)
_LOG = logging.getLogger(__name__)


def log_failure(subscription: Subscription, messages: Sequence[Message], error: Exception) -> None:
    """Log that a call with ``messages`` ended with ``error``, and what becomes of them."""
    for message in messages:
        verdict, failure, is_last = judge_failure(subscription.settle_policy, message, error)
        is_first = message is messages[0]  # of a batch, one traceback is enough
        if verdict is not Verdict.FAIL:
            done = "it is acknowledged" if verdict is Verdict.ACK else "the handler settles it"
            _LOG.error("%s failed with %r; %s", subscription.name, message, done, exc_info=_shown(error, is_first))
        elif is_last:
            _LOG.error(
                "%s failed for good with %r, %s: it goes to the dead letters (litemq dlq show %s %s --group %s)",
                subscription.name,
                message,
                _reason(message, failure),
                message.topic,
                message.message_id,
                subscription.group_id,
                exc_info=_shown(error, is_first),
            )
        elif isinstance(error, Retry):
            _LOG.debug("%s requested a retry of %r", subscription.name, message)
        else:
            _LOG.warning(
                "%s failed with %r, attempt %d of %d, the next one in about %s s: %s",
                subscription.name,
                message,
                message.attempt,
                failure.max_retries + 1,
                f"{failure.delay:.2g}" if failure.delay < 10 else f"{failure.delay:.0f}",
                one_line(f"{type(error).__name__}: {error}"),
                exc_info=_shown(error, is_first and message.attempt == 1),
            )


def _reason(message: Message, failure: Failure) -> str:
    if failure.detail == "undecodable":
        return "whose body cannot be decoded"
    if failure.is_final:
        return "with an error that is not retried"
    return f"attempt {message.attempt} of {failure.max_retries + 1}"


def _shown(error: Exception, wanted: bool) -> tuple[type[BaseException], BaseException, TracebackType | None] | None:
    """Return ``error`` with the part of its traceback from the handler on."""
    if not wanted:
        return None
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_BETWEEN):
        trace = trace.tb_next
    return type(error), error, trace or error.__traceback__
