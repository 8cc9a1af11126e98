"""Retry policy: how often and after which delay a failed message is retried."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from litemq.client.times import seconds
from litemq.errors import InvalidArgumentError

__all__ = ["MAX_RETRIES", "Retry", "RetryPolicy", "retry_delay"]

MAX_RETRIES: Final = 16
_RETRIES_LIMIT: Final = 1_000_000
_MAX_DELAY_S: Final = 365 * 24 * 3600.0


class Retry(Exception):  # noqa: N818  not an error: the handler requests a retry
    """Raise it in a handler to retry the message after ``delay`` seconds.

    By default, the retry policy decides.
    """

    def __init__(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "the handler requested a retry")
        self.delay = None if delay is None else retry_delay(delay, "delay")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often to retry, after which delays, and for which errors not at all.

    Durations are seconds, or a ``timedelta``. The delay doubles with each attempt, from
    ``min_backoff`` to ``max_backoff``, plus or minus a random share (``jitter``) that spreads
    messages that failed together. Alternatively, ``delays`` lists the delays; the last one repeats.
    """

    max_retries: int = MAX_RETRIES  # after the first attempt
    min_backoff: float | timedelta = 1.0
    max_backoff: float | timedelta = 3600.0
    jitter: float = 0.1
    delays: Sequence[float | timedelta] = ()
    throws: tuple[
        type[Exception], ...
    ] = ()  # errors that a retry cannot fix: the message becomes a dead letter at once

    def __post_init__(self) -> None:
        if (
            not isinstance(self.max_retries, int)
            or isinstance(self.max_retries, bool)
            or not 0 <= self.max_retries <= _RETRIES_LIMIT
        ):
            raise InvalidArgumentError(f"max_retries={self.max_retries!r}: choose a whole number, 0 … {_RETRIES_LIMIT}")
        shortest, longest = retry_delay(self.min_backoff, "min_backoff"), retry_delay(self.max_backoff, "max_backoff")
        if shortest > longest:
            raise InvalidArgumentError(
                f"min_backoff={shortest:g} is longer than max_backoff={longest:g}: choose a shorter one"
            )
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise InvalidArgumentError(f"jitter={self.jitter!r}: choose a share of the delay, 0 … 1")
        for delay in self.delays:
            retry_delay(delay, "delays")
        throws = self.throws if isinstance(self.throws, tuple) else (self.throws,)
        if not all(isinstance(each, type) and issubclass(each, Exception) for each in throws):
            raise InvalidArgumentError(f"throws={self.throws!r}: choose exception classes, as in throws=(ValueError,)")
        object.__setattr__(self, "throws", throws)
        object.__setattr__(self, "delays", tuple(self.delays))

    def delay(self, attempt: int, between: Callable[[float, float], float] = random.uniform) -> float:
        """Return the seconds between the failure of ``attempt`` (from 1) and the next attempt."""
        if self.delays:
            return retry_delay(self.delays[min(attempt, len(self.delays)) - 1], "delays")
        shortest, longest = retry_delay(self.min_backoff, "min_backoff"), retry_delay(self.max_backoff, "max_backoff")
        full = min(shortest * (1 << min(attempt - 1, 60)), longest)
        return between(full * (1 - self.jitter), full * (1 + self.jitter)) if self.jitter else full

    def is_last(self, attempt: int) -> bool:
        """Return whether ``attempt`` is the last one."""
        return attempt > self.max_retries


def retry_delay(value: float | timedelta, what: str) -> float:
    """Convert a retry delay to seconds; raise ``InvalidArgumentError`` above 365 days."""
    duration = seconds(value, what)
    if duration > _MAX_DELAY_S:
        raise InvalidArgumentError(f"{what}={value!r}: choose at most 365 days")
    return duration
