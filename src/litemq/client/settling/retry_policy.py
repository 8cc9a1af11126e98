"""When a message that failed is tried again, and when no more."""

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
_MOST_RETRIES: Final = 1_000_000
_LONGEST: Final = 365 * 24 * 3600.0


class Retry(Exception):  # noqa: N818  nothing went wrong: the handler asks for another try
    """Raise it in a handler to have the message again after ``delay`` seconds; without one, after what the retry policy says."""

    def __init__(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "the handler asks for another try")
        self.delay = None if delay is None else retry_delay(delay, "delay")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, how long apart, and for which errors not at all. Durations are seconds, or a ``timedelta``.

    The time doubles with each try, from ``min_backoff`` to ``max_backoff``, give or take a share of it at random (``jitter``), so that what
    failed together does not come again together; or ``delays`` names each one, of which the last one repeats.
    """

    max_retries: int = MAX_RETRIES  # after the first try
    min_backoff: float | timedelta = 1.0
    max_backoff: float | timedelta = 3600.0
    jitter: float = 0.1
    delays: Sequence[float | timedelta] = ()
    throws: tuple[type[Exception], ...] = ()  # errors that no further try would cure: straight to the dead letters

    def __post_init__(self) -> None:
        if not isinstance(self.max_retries, int) or isinstance(self.max_retries, bool) or not 0 <= self.max_retries <= _MOST_RETRIES:
            raise InvalidArgumentError(f"max_retries={self.max_retries!r}: choose a whole number, 0 … {_MOST_RETRIES}")
        least, most = retry_delay(self.min_backoff, "min_backoff"), retry_delay(self.max_backoff, "max_backoff")
        if least > most:
            raise InvalidArgumentError(f"min_backoff={least:g} is longer than max_backoff={most:g}: choose a shorter one")
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise InvalidArgumentError(f"jitter={self.jitter!r}: choose a share of the time, 0 … 1")
        for delay in self.delays:
            retry_delay(delay, "delays")
        throws = self.throws if isinstance(self.throws, tuple) else (self.throws,)
        if not all(isinstance(each, type) and issubclass(each, Exception) for each in throws):
            raise InvalidArgumentError(f"throws={self.throws!r}: choose classes of exceptions, as throws=(ValueError,)")
        object.__setattr__(self, "throws", throws)
        object.__setattr__(self, "delays", tuple(self.delays))

    def delay(self, attempt: int, between: Callable[[float, float], float] = random.uniform) -> float:
        """Seconds from the failure of a try, 1 being the first, to the next one."""
        if self.delays:
            return retry_delay(self.delays[min(attempt, len(self.delays)) - 1], "delays")
        least, most = retry_delay(self.min_backoff, "min_backoff"), retry_delay(self.max_backoff, "max_backoff")
        full = min(least * (1 << min(attempt - 1, 60)), most)
        return between(full * (1 - self.jitter), full * (1 + self.jitter)) if self.jitter else full

    def is_last(self, attempt: int) -> bool:
        """Whether no try follows the one with this number."""
        return attempt > self.max_retries


def retry_delay(value: float | timedelta, what: str) -> float:
    """A time until the next try, in seconds; raises where it is none, or too long."""
    duration = seconds(value, what)
    if duration > _LONGEST:
        raise InvalidArgumentError(f"{what}={value!r}: a try waits for 365 days at most")
    return duration
