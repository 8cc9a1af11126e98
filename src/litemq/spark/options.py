"""Parsing and validation of the options of the Spark formats. Unknown options raise.

Spark passes option names in lower case; messages use the spelling of the documentation.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from litemq.errors import InvalidArgumentError

__all__ = ["OptionReader", "nearest"]

W = TypeVar("W", bound=str)

_SWITCH: Final = {"true": True, "false": False}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean …?`` with the closest name in ``known``, or an empty string."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


class OptionReader:
    """The options of one format, by their documented names."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str], *, of: str) -> None:
        """``of`` names the format in error messages: ``"the litemq source"``."""
        names = {name.lower(): name for name in known}
        unknown = [name for name in options if name.lower() not in names]
        if unknown:
            raise InvalidArgumentError(
                f"{of} has no option {unknown[0]!r}.{nearest(unknown[0], names.values())} "
                f"Its options are {', '.join(sorted(names.values()))}"
            )
        self._values = {names[name.lower()]: value for name, value in options.items()}
        self._of = of

    @property
    def given(self) -> frozenset[str]:
        """Names of the options that are set."""
        return frozenset(self._values)

    def text(self, name: str) -> str | None:
        """Return the option as text, or ``None``. Raise if it is empty."""
        value = self._values.get(name)
        if value is not None and not value.strip():
            raise InvalidArgumentError(f"option {name} is empty: give it a value, or leave it out")
        return value

    def needed(self, name: str, example: str) -> str:
        """Return a required option. Raise with ``example`` if it is missing."""
        value = self.text(name)
        if value is None:
            raise InvalidArgumentError(f"{self._of} needs the option {name}: write .option({name!r}, {example!r})")
        return value

    def switch(self, name: str, default: bool) -> bool:
        """Parse a boolean option."""
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in _SWITCH:
            raise InvalidArgumentError(f"option {name}={value!r}: choose true or false")
        return _SWITCH[value.strip().lower()]

    def choice(self, name: str, choices: Sequence[W]) -> W | None:
        """Parse one of some words."""
        value = self.text(name)
        chosen = [word for word in choices if value is not None and word == value.strip().lower()]
        if value is not None and not chosen:
            raise InvalidArgumentError(f"option {name}={value!r}: choose {' or '.join(choices)}")
        return chosen[0] if chosen else None

    def number(self, name: str, *, minimum: int = 1) -> int | None:
        """Parse an integer of at least ``minimum``."""
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"-?[0-9]{1,18}", value.strip()) or int(value) < minimum:
            raise InvalidArgumentError(f"option {name}={value!r}: choose an integer of at least {minimum}")
        return int(value)

    def names(self, name: str) -> list[str] | None:
        """Parse a comma-separated list of names."""
        value = self.text(name)
        if value is None:
            return None
        words = [word.strip() for word in value.split(",")]
        if not all(words):
            raise InvalidArgumentError(f"option {name}={value!r}: write names separated by commas")
        return list(dict.fromkeys(words))

    def pattern(self, name: str) -> re.Pattern[str] | None:
        """Parse a regular expression."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return re.compile(value)
        except re.error as error:
            raise InvalidArgumentError(f"option {name}={value!r} is not a valid regular expression: {error}") from error

    def json_object(self, name: str, example: str) -> dict[str, Any] | None:
        """Parse a JSON object."""
        value = self.text(name)
        if value is None:
            return None
        try:
            found = json.loads(value)
        except ValueError as error:
            raise InvalidArgumentError(
                f"option {name}={value!r} is not valid JSON ({error}): write it like {example}"
            ) from error
        if not isinstance(found, dict):
            raise InvalidArgumentError(f"option {name}={value!r}: write it like {example}")
        return found

    def moment(self, name: str) -> int | None:
        """Parse a time as Unix milliseconds; ISO 8601 text without a zone is UTC."""
        value = self.text(name)
        return None if value is None else moment_ms(value, f"option {name}")


def moment_ms(value: object, what: str) -> int:
    """Return Unix milliseconds for a number or ISO 8601 text.

    ``what`` names the value in errors.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53:
        return value
    text = str(value).strip()
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(
            f"{what}={value!r}: write milliseconds since 1970, or a time like 2026-01-31T12:00:00+00:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
