"""SQL's LIKE without backtracking: ``%`` matches any string, ``_`` matches one character."""

from __future__ import annotations

import re
from typing import Final

from litemq.errors import FilterSyntaxError

__all__ = ["MAX_PATTERN_CHARACTERS", "LikePattern"]

MAX_PATTERN_CHARACTERS: Final = 255


class LikePattern:
    """A pattern, split at its ``%``.

    The first piece must match at the start of the text, the last at its end. The pieces between
    match one after another, each as early as possible, so no backtracking is needed.
    """

    __slots__ = ("_first", "_is_whole", "_last", "_middle")

    def __init__(self, pattern: str, escape: str = "") -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise FilterSyntaxError(
                f"a LIKE pattern of {len(pattern)} characters: use at most {MAX_PATTERN_CHARACTERS}"
            )
        pieces = _split(pattern, escape)
        self._is_whole = len(pieces) == 1
        self._first = pieces[0]
        self._last = pieces[-1]
        self._middle = [piece for piece in pieces[1:-1] if piece[0]]

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole ``text``."""
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


def _split(pattern: str, escape: str) -> list[tuple[int, re.Pattern[str]]]:
    """Return the pieces between the ``%``, each with its length in characters."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape) or not escaped:
                raise FilterSyntaxError(f"LIKE {pattern[:64]!r}: {escape!r} must precede %, _ or itself")
            pieces[-1].append(re.escape(escaped))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
    return [(len(piece), re.compile("".join(piece), re.DOTALL)) for piece in pieces]
