"""Dead letters that share an error: "340 of 352 share this"."""

from __future__ import annotations

from typing import NamedTuple

from litemq.client.engine.dead_letters import DeadLetterFact
from litemq.types import DeadReason

__all__ = ["ErrorGroup", "ErrorGroups"]


class ErrorGroup(NamedTuple):
    """Dead letters whose errors have one fingerprint. ``error`` and ``message_id`` are those of the latest."""

    fingerprint: str
    letters: int
    of: int  # all that were looked at
    reasons: tuple[DeadReason, ...]
    error: str
    detail: str
    group_ids: tuple[str, ...]
    message_id: str
    first_at: int  # ms
    last_at: int


class ErrorGroups:
    """Counts letters as they come; of each fingerprint only the latest is kept."""

    def __init__(self) -> None:
        self._seen = 0
        self._latest: dict[str, DeadLetterFact] = {}
        self._letters: dict[str, int] = {}
        self._first_at: dict[str, int] = {}
        self._reasons: dict[str, set[DeadReason]] = {}
        self._group_ids: dict[str, set[str]] = {}

    def add(self, fact: DeadLetterFact) -> None:
        """One more."""
        name = fact.fingerprint
        self._seen += 1
        self._letters[name] = self._letters.get(name, 0) + 1
        self._first_at[name] = min(fact.dead_at, self._first_at.get(name, fact.dead_at))
        self._reasons.setdefault(name, set()).add(fact.reason)
        self._group_ids.setdefault(name, set()).add(fact.group)
        if name not in self._latest or fact.dead_at >= self._latest[name].dead_at:
            self._latest[name] = fact

    def groups(self) -> list[ErrorGroup]:
        """The largest first."""
        found = [
            ErrorGroup(
                name,
                self._letters[name],
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
