"""SQL's LIKE without backtracking: ``%`` matches any string, ``_`` matches one character."""

from __future__ import annotations

import re
from typing import Final

from litemq.errors import FilterSyntaxError

__all__ = ["MAX_PATTERN_CHARACTERS", "MAX_STEPS", "LikePattern"]

MAX_PATTERN_CHARACTERS: Final = 255
# The characters of all patterns of a filter, times those of a value. More takes several ms, in
# which the broker serves no one else.
MAX_STEPS: Final = 4_000_000


class LikePattern:
    """A pattern, split at its ``%``.

    The first piece must match at the start of the text, the last at its end. The pieces between
    match one after another, each as early as possible, so no backtracking is needed. To search for
    a piece with ``_`` may still take its length times that of the text, so the text is limited.
    """

    __slots__ = ("_first", "_is_whole", "_last", "_max_text", "_middle")

    def __init__(self, pattern: str, escape: str = "", *, max_text: int = MAX_STEPS // MAX_PATTERN_CHARACTERS) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise FilterSyntaxError(
                f"a LIKE pattern of {len(pattern)} characters: use at most {MAX_PATTERN_CHARACTERS}"
            )
        pieces = _split(pattern, escape)
        self._is_whole = len(pieces) == 1
        self._first = pieces[0]
        self._last = pieces[-1]
        self._middle = [piece for piece in pieces[1:-1] if piece[0]]
        self._max_text = max_text if any("." in piece.pattern for _, piece in self._middle) else None

    def matches(self, text: str) -> bool | None:
        """Return whether the pattern matches the whole ``text``; ``None`` if that is too long."""
        if self._max_text is not None and len(text) > self._max_text:
            return None
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
