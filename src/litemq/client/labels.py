"""Checks of the tags, keys and properties that callers pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from litemq.errors import InvalidArgumentError

__all__ = ["property_pairs", "strings"]


def strings(values: Any, what: str) -> tuple[str, ...]:
    """Return ``values``, a string or strings, as a tuple; ``what`` names the argument in errors."""
    if isinstance(values, str):
        return (values,)
    try:
        found = tuple(values)
    except TypeError:
        raise _not_strings(values, what) from None
    if isinstance(values, (bytes, bytearray)) or not all(isinstance(each, str) for each in found):
        raise _not_strings(values, what)
    return found


def property_pairs(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the names and values of ``properties``."""
    if not isinstance(properties, Mapping):
        raise InvalidArgumentError(
            f"properties={_short(properties)}: expected a dict of strings, got {type(properties).__name__}"
        )
    pairs = tuple(properties.items())
    for name, value in pairs:
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"properties: the name {_short(name)} must be a string, got {type(name).__name__}"
            )
        if not isinstance(value, str):
            raise InvalidArgumentError(
                f"properties: the value of {name[:64]!r} must be a string, got {type(value).__name__}: {_short(value)}"
            )
    return pairs


def _not_strings(values: object, what: str) -> InvalidArgumentError:
    given = type(values).__name__
    if isinstance(values, Sequence) and not isinstance(values, (bytes, bytearray)):
        wrong = next(each for each in values if not isinstance(each, str))
        given = f"{given} with {_short(wrong)} ({type(wrong).__name__})"
    return InvalidArgumentError(f"{what}={_short(values)}: expected a string or a list of strings, got {given}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
