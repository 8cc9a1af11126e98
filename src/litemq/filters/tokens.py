"""The words and signs that a filter may be made of, looked at before anything parses them."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from litemq.errors import FilterSyntaxError

__all__ = ["check_tokens", "refuse", "short"]

_MAX_TOKENS: Final = 512
_MAX_DEPTH: Final = 16  # of parentheses
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<name>"(?:[^"]|"")+" | [A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z0-9_.]))
      | (?P<sign><>|!=|<=|>=|[=<>+\-*/,()])
    )""",
    re.VERBOSE | re.ASCII,
)


def check_tokens(text: str) -> None:
    """Only the words and signs of a condition, and not too many: the parser knows much more than we want to hear."""
    text = text.rstrip()
    at, depth, last = 0, 0, ""
    for count in range(_MAX_TOKENS + 1):
        if at == len(text):
            if depth:
                refuse(f"the filter {short(text)!r} leaves a parenthesis open")
            return
        found = _TOKEN.match(text, at)
        if found is None:
            refuse(f"the filter {short(text)!r} cannot be read from {short(text[at:])!r} on")
        if count == _MAX_TOKENS:
            break
        sign = found["sign"] or ""
        is_text = found["text"] is not None
        if is_text and last == "text":
            refuse(f"two texts side by side: {found['text'][:64]}")
        if sign and found.start("sign") == at and last + sign in ("--", "//", "/*"):
            refuse(f"the filter {short(text)!r}: {last}{sign} would begin a comment, and a filter has none")
        depth += (sign == "(") - (sign == ")")
        if not 0 <= depth <= _MAX_DEPTH:
            refuse(f"parentheses of the filter {short(text)!r}: each is opened and closed, at most {_MAX_DEPTH} within each other")
        last = "text" if is_text else sign
        at = found.end()
    refuse(f"a filter of more than {_MAX_TOKENS} words and signs")


def short(text: str) -> str:
    """What a message quotes of a text."""
    return text if len(text) <= 64 else text[:63] + "…"


def refuse(why: str) -> NoReturn:
    """Say what is wrong with a filter."""
    raise FilterSyntaxError(why)
