"""Token checks of SQL filters, made before the parser sees the text."""

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
    """Raise unless ``text`` consists of the tokens of a condition, within the limits.

    The parser accepts much more SQL than filters support.
    """
    text = text.rstrip()
    at, depth, last = 0, 0, ""
    for count in range(_MAX_TOKENS + 1):
        if at == len(text):
            if depth:
                refuse(f"the filter {short(text)!r} has an unclosed parenthesis")
            return
        found = _TOKEN.match(text, at)
        if found is None:
            refuse(f"the filter {short(text)!r} cannot be read from {short(text[at:])!r} on")
        if count == _MAX_TOKENS:
            break
        sign = found["sign"] or ""
        is_text = found["text"] is not None
        if is_text and last == "text":
            refuse(f"two strings side by side, without an operator: {found['text'][:64]}")
        if sign and found.start("sign") == at and last + sign in ("--", "//", "/*"):
            refuse(f"the filter {short(text)!r}: {last}{sign} begins a comment, which filters do not support")
        depth += (sign == "(") - (sign == ")")
        if not 0 <= depth <= _MAX_DEPTH:
            refuse(f"the filter {short(text)!r}: parentheses must match, and nest at most {_MAX_DEPTH} deep")
        last = "text" if is_text else sign
        at = found.end()
    refuse(f"the filter is too long: use at most {_MAX_TOKENS} names, literals and operators")


def short(text: str) -> str:
    """Shorten ``text`` to quote it in a message."""
    return text if len(text) <= 64 else text[:63] + "…"


def refuse(why: str) -> NoReturn:
    """Raise ``FilterSyntaxError``."""
    raise FilterSyntaxError(why)
