"""Whose sends are appended next, while more is sent than the disk takes.

What is in the log before a message is flushed before it is. So one who sends as much as the connection takes would make everybody wait.
Below a little of unconfirmed bytes nobody is asked to wait. Above it each caller may add a little more, which is all that most ever want,
and then stands in a line of its own; when the disk has caught up, all lines give the same share of bytes. A line that grows too long
is answered: come again later.

A caller who is alone here disturbs nobody, and fills the log as far as the broker allows.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Final

from litemq.broker.runtime.caller import Caller
from litemq.net.frame import Frame

__all__ = ["FREE_BYTES", "Lines", "Waiting"]

FREE_BYTES: Final = 1 << 20  # unconfirmed: as long as there is less, nobody waits
_OWN_BYTES: Final = 256 << 10  # what each may add beyond that until the disk has caught up
_LONGEST_LINE: Final = 32 << 20
_SHORTEST_LINE: Final = 1 << 20
_REMEMBERED_S: Final = 1.0

# Who, the frame, the topic, the queue.
Waiting = tuple[Caller, Frame, int, int]


class Lines:
    """The lines of all callers. No I/O; ``now`` is any clock that never falls."""

    def __init__(self, max_bytes: int) -> None:
        """``max_bytes``: what may wait here, and what one who is alone may have unconfirmed."""
        self._max_bytes = max_bytes
        self._lines: dict[Caller, deque[Waiting]] = {}
        self._sizes: dict[Caller, int] = {}
        self._added: dict[Caller, int] = {}  # since the disk last caught up
        self._seen: dict[Caller, float] = {}

    @property
    def is_empty(self) -> bool:
        return not self._lines

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return sum(self._sizes.values())

    def may_pass(self, caller: Caller, size: int, unconfirmed: int, now: float) -> bool:
        """Whether a request is appended at once; if not, it is to ``join``."""
        self._seen[caller] = now
        if caller in self._lines:
            return False  # behind those that came before it
        added = self._added.get(caller, 0) + size
        if unconfirmed > FREE_BYTES and added > _OWN_BYTES and not (unconfirmed <= self._max_bytes and self._is_alone(caller, now)):
            return False
        self._added[caller] = added
        return True

    def _is_alone(self, caller: Caller, now: float) -> bool:
        return not any(other is not caller and now - seen < _REMEMBERED_S for other, seen in self._seen.items())

    def join(self, waiting: Waiting) -> bool:
        """Stand in line; ``False`` where the line is too long."""
        caller, frame = waiting[:2]
        size = self._sizes.get(caller, 0) + len(frame[4])
        longest = max(_SHORTEST_LINE, min(_LONGEST_LINE, self._max_bytes // (len(self._lines) + 1)))
        if size > longest and caller in self._lines:
            return False
        self._lines.setdefault(caller, deque()).append(waiting)
        self._sizes[caller] = size
        return True

    def caught_up(self, now: float) -> list[Waiting]:
        """The disk has: what is appended next, of each line the same share, about ``FREE_BYTES`` together."""
        self._added.clear()
        for caller in [caller for caller, seen in self._seen.items() if now - seen > _REMEMBERED_S]:
            del self._seen[caller]
        taken: list[Waiting] = []
        room = FREE_BYTES
        while self._lines and room > 0:
            share = room // len(self._lines)
            for caller in list(self._lines):
                room -= self._take(caller, share, taken)
        return taken

    def _take(self, caller: Caller, share: int, taken: list[Waiting]) -> int:
        """At least one request of a line, and as many as its share has room for."""
        line = self._lines[caller]
        size = 0
        while line and (not size or size + len(line[0][1][4]) <= share):
            waiting = line.popleft()
            taken.append(waiting)
            size += len(waiting[1][4])
        if line:
            self._sizes[caller] -= size
        else:
            self.forget(caller)
        return max(size, 1)

    def forget(self, caller: Caller) -> None:
        """Nobody waits for the answers any more, or nothing is left to answer."""
        self._lines.pop(caller, None)
        self._sizes.pop(caller, None)

    def clear(self) -> list[Waiting]:
        """Everybody, in no fair order: there is nothing to wait for."""
        everybody = list(chain.from_iterable(self._lines.values()))
        self._lines.clear()
        self._sizes.clear()
        return everybody
