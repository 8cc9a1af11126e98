"""Limits of a job's runs, carried in message properties: the timeout and the number of retries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from litemq.client.settling.retry_policy import RetryPolicy
from litemq.types import RETRIES_PROPERTY, TIMEOUT_PROPERTY

__all__ = ["number_property", "retry_policy_for", "time_limit_for"]

_MAX_TIMEOUT_MS: Final = 86_400_000
_MAX_RETRIES: Final = 1_000


def time_limit_for(properties: Sequence[Mapping[str, str]], limit: float | None) -> float | None:
    """Return the timeout of a handler call in seconds: its only message's, or else ``limit``."""
    if len(properties) == 1:
        timeout_ms = number_property(properties[0], TIMEOUT_PROPERTY, _MAX_TIMEOUT_MS)
        if timeout_ms:
            return timeout_ms / 1000
    return limit


def retry_policy_for(properties: Mapping[str, str], retry: RetryPolicy) -> RetryPolicy:
    """Return ``retry`` with the number of retries that the message's properties name, if any."""
    max_retries = number_property(properties, RETRIES_PROPERTY, _MAX_RETRIES)
    return retry if max_retries is None else replace(retry, max_retries=max_retries)


def number_property(properties: Mapping[str, str], name: str, limit: int = 10**11) -> int | None:
    """Return the property ``name`` as a number.

    ``None`` if it is missing, malformed or above ``limit``.
    """
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 and int(text) <= limit else None
