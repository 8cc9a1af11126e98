"""Groups of dead letters with the same error: "340 of 352 share this error"."""

from __future__ import annotations

from typing import NamedTuple

from litemq.client.engine.dead_letters import DeadLetterInfo
from litemq.types import DeadReason

__all__ = ["ErrorGroup", "ErrorGroups"]


class ErrorGroup(NamedTuple):
    """Dead letters whose errors share a fingerprint.

    ``error`` and ``message_id`` are those of the latest.
    """

    fingerprint: str
    letters: int
    of: int  # the number of all dead letters examined
    reasons: tuple[DeadReason, ...]
    error: str
    detail: str
    group_ids: tuple[str, ...]
    message_id: str
    first_at: int  # ms
    last_at: int


class ErrorGroups:
    """Counts dead letters by fingerprint, and keeps the latest of each."""

    def __init__(self) -> None:
        self._seen = 0
        self._latest: dict[str, DeadLetterInfo] = {}
        self._counts: dict[str, int] = {}
        self._first_at: dict[str, int] = {}
        self._reasons: dict[str, set[DeadReason]] = {}
        self._group_ids: dict[str, set[str]] = {}

    def add(self, letter: DeadLetterInfo) -> None:
        """Count ``letter``."""
        name = letter.fingerprint
        self._seen += 1
        self._counts[name] = self._counts.get(name, 0) + 1
        self._first_at[name] = min(letter.dead_at, self._first_at.get(name, letter.dead_at))
        self._reasons.setdefault(name, set()).add(letter.reason)
        self._group_ids.setdefault(name, set()).add(letter.group)
        if name not in self._latest or letter.dead_at >= self._latest[name].dead_at:
            self._latest[name] = letter

    def groups(self) -> list[ErrorGroup]:
        """Return the groups, the largest first."""
        found = [
            ErrorGroup(
                name,
                self._counts[name],
                self._seen,
                tuple(sorted(self._reasons[name])),
                latest.error,
                latest.detail,
                tuple(sorted(self._group_ids[name] - {""})),
                latest.message_id,
                self._first_at[name],
                latest.dead_at,
            )
            for name, latest in self._latest.items()
        ]
        return sorted(found, key=lambda group: (-group.letters, -group.last_at, group.fingerprint))
