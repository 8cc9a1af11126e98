"""What a job says of its runs, which its messages bring along: how long one may take, and how often it is tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from litemq.client.settling.retry_policy import RetryPolicy
from litemq.types import RETRIES_PROPERTY, TIMEOUT_PROPERTY

__all__ = ["retry_of", "time_limit_of"]

_LONGEST_MS: Final = 86_400_000
_MOST_RETRIES: Final = 1_000


def time_limit_of(properties: Sequence[Mapping[str, str]], limit: float | None) -> float | None:
    """Seconds that a call may take: what its one message says, or else its handler."""
    if len(properties) == 1:
        said = _number(properties[0], TIMEOUT_PROPERTY, _LONGEST_MS)
        if said:
            return said / 1000
    return limit


def retry_of(properties: Mapping[str, str], retry: RetryPolicy) -> RetryPolicy:
    """When a message is tried again: as its handler says, but as often as it says itself."""
    said = _number(properties, RETRIES_PROPERTY, _MOST_RETRIES)
    return retry if said is None else replace(retry, max_retries=said)


def _number(properties: Mapping[str, str], name: str, most: int) -> int | None:
    """A number among a message's properties; what is none, or too large, is nobody's wish."""
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 and int(text) <= most else None
