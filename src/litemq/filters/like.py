"""SQL's LIKE without backtracking: ``%`` stands for any text, ``_`` for one character."""

from __future__ import annotations

import re
from typing import Final

from litemq.errors import FilterSyntaxError

__all__ = ["MAX_PATTERN_CHARACTERS", "LikePattern"]

MAX_PATTERN_CHARACTERS: Final = 255


class LikePattern:
    """A pattern, cut at its ``%``: what stands before the first is where the text begins, what stands behind the last where it ends, and
    the others follow each other, each as early as it can. So no place of the text is tried for more than one of them at a time."""

    __slots__ = ("_first", "_is_whole", "_last", "_middle")

    def __init__(self, pattern: str, escape: str = "") -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise FilterSyntaxError(f"a LIKE pattern of {len(pattern)} characters: at most {MAX_PATTERN_CHARACTERS} are allowed")
        pieces = _cut(pattern, escape)
        self._is_whole = len(pieces) == 1
        self._first = pieces[0]
        self._last = pieces[-1]
        self._middle = [piece for piece in pieces[1:-1] if piece[0]]

    def matches(self, text: str) -> bool:
        """Whether the whole text is like the pattern."""
        length, first = self._first
        if self._is_whole:
            return len(text) == length and first.match(text) is not None
        last_length, last = self._last
        end = len(text) - last_length
        if end < length or first.match(text) is None or last.match(text, end) is None:
            return False
        at = length
        for _, piece in self._middle:
            found = piece.search(text, at, end)
            if found is None:
                return False
            at = found.end()
        return True


def _cut(pattern: str, escape: str) -> list[tuple[int, re.Pattern[str]]]:
    """The pieces between the ``%``, with the number of characters that each stands for."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape) or not escaped:
                raise FilterSyntaxError(f"LIKE {pattern[:64]!r}: {escape!r} stands before %, _ or itself")
            pieces[-1].append(re.escape(escaped))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
    return [(len(piece), re.compile("".join(piece), re.DOTALL)) for piece in pieces]
