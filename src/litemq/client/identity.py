"""Unique ids of clients, producers and messages."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from litemq.client import native

__all__ = ["MESSAGE_ID_BYTES", "MessageIds", "PythonMessageIds", "new_message_ids", "new_producer_id", "new_suffix"]

MESSAGE_ID_BYTES: Final = 31
_LAST_DIGITS: Final = tuple(f"{n:03x}" for n in range(4096))


def new_suffix() -> str:
    """Return eight random hex digits."""
    return secrets.token_hex(4)


def new_producer_id() -> int:
    """Return a random 64-bit producer id other than 0, which means none."""
    return secrets.randbits(64) or 1


def new_message_ids() -> MessageIds:
    """Return the source of message ids for a producer."""
    return MessageIds(secrets.token_hex(5))


class PythonMessageIds:
    """Message ids of one producer: milliseconds, a random part of ten digits, and a counter.

    Ids increase with time, and have 31 digits.
    """

    __slots__ = ("_count", "_ms", "_prefix", "_random")

    def __init__(self, random: str, /) -> None:
        self._random = random
        self._count = -1
        self._ms = 0
        self._prefix = ""

    def next(self) -> tuple[str, int]:
        """Return an id and its time in milliseconds. Neither decreases when the clock does."""
        now = time.time_ns() // 1_000_000
        self._count = count = self._count + 1
        last = count & 4095
        if now > self._ms or not last:
            self._ms = now = max(now, self._ms)
            self._prefix = f"{now:012x}{self._random}{count >> 12 & 0xFFFFFF:06x}"
        return self._prefix + _LAST_DIGITS[last], self._ms


if TYPE_CHECKING:
    MessageIds = native.sending.MessageIds
else:
    MessageIds = native.sending.MessageIds if native.enabled else PythonMessageIds
