"""Value types of settings: parsing from flags, variables and TOML, and formatting for output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from litemq.errors import ConfigurationError

__all__ = ["DURATION", "INTEGER", "NAMED_TEXTS", "SIZE", "SWITCH", "TEXT", "TEXTS", "Kind", "choice", "parse_duration"]

_DURATION_UNITS: Final[dict[str, int]] = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE_UNITS: Final[dict[str, int]] = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    "KB": 1000,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_SWITCH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A value type.

    ``read`` parses a TOML value or a command-line string, and raises if it is invalid.
    """

    name: str
    metavar: str
    choices: tuple[str, ...] = ()
    may_be_none: bool = False

    def or_none(self) -> Kind:
        """Return this kind extended by the word ``none``."""
        return Kind(self.name, self.metavar, self.choices, may_be_none=True)

    def read(self, value: object) -> object:
        """Parse ``value`` into the program's unit: milliseconds, bytes or a tuple."""
        if self.may_be_none and isinstance(value, str) and value.strip().lower() == "none":
            return None
        return _READERS[self.name](value, self)

    def show(self, value: object) -> object:
        """Format ``value`` as a user writes it."""
        if value is None:
            return "none" if self.may_be_none else ""
        if self.name == "duration" and isinstance(value, int):
            return _shortest(value, _DURATION_UNITS)
        if self.name == "size" and isinstance(value, int):
            return (
                _shortest(value, {unit: factor for unit, factor in _SIZE_UNITS.items() if "i" in unit})
                if value >= 1024
                else value
            )
        if isinstance(value, Mapping):
            return "; ".join(f"{name}={text}" for name, text in value.items())
        return list(value) if isinstance(value, tuple) else value


def choice(*values: str) -> Kind:
    """Return the kind whose values are ``values``."""
    return Kind("choice", "|".join(values), values)


def _text(value: object, _kind: Kind) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"write a quoted string, not {_toml(value)}")
    return value


def _integer(value: object, _kind: Kind) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d[\d_]*", value.strip(), re.ASCII):
        return int(value)
    raise ConfigurationError(f"write a whole number, not {_toml(value)}")


def _switch(value: object, _kind: Kind) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _SWITCH:
        return _SWITCH[value.strip().lower()]
    raise ConfigurationError(f"write true or false, not {_toml(value)}")


def _duration(value: object, kind: Kind) -> int:
    if isinstance(value, str):
        text = value.strip().replace(" ", "")
        if text == "0":
            return 0
        parts = _DURATION.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return round(sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts))
    wanted = 'a duration with its unit (ms, s, m, h, d), such as "30s"'
    raise ConfigurationError(f"write {wanted}{_or_none(kind)}, not {_toml(value)}")


def _size(value: object, kind: Kind) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())) and match[2] in _SIZE_UNITS:
        return round(float(match[1]) * _SIZE_UNITS[match[2]])
    raise ConfigurationError(
        'write a number of bytes, or one with its unit (kB, MB, GB; KiB, MiB, GiB), such as "64MiB"'
        f"{_or_none(kind)}, not {_toml(value)}"
    )


def _texts(value: object, _kind: Kind) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part for part in (part.strip() for part in value.split(",")) if part)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise ConfigurationError(f'write a list of strings, such as ["a", "b"], not {_toml(value)}')


def _named_texts(value: object, _kind: Kind) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(";") if pair.strip()]
        if all(equals and name.strip() for name, equals, _ in pairs):
            return {name.strip(): text.strip() for name, _, text in pairs}
    elif isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return dict(value)
    raise ConfigurationError(f'write names and strings, such as orders = "variant", not {_toml(value)}')


def _choice(value: object, kind: Kind) -> str:
    if isinstance(value, str) and value in kind.choices:
        return value
    raise ConfigurationError(f"choose {' or '.join(kind.choices)}, not {_toml(value)}")


_READERS: Final = {
    "text": _text,
    "integer": _integer,
    "switch": _switch,
    "duration": _duration,
    "size": _size,
    "texts": _texts,
    "named texts": _named_texts,
    "choice": _choice,
}


def _or_none(kind: Kind) -> str:
    return ', or "none"' if kind.may_be_none else ""


def _toml(value: object) -> str:
    """Format ``value`` as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _shortest(value: int, units: dict[str, int]) -> str | int:
    """Format ``value`` in the largest unit that divides it."""
    for unit, factor in sorted(units.items(), key=lambda item: -item[1]):
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return value or "0"


TEXT: Final = Kind("text", "TEXT")
INTEGER: Final = Kind("integer", "NUMBER")
SWITCH: Final = Kind("switch", "")
DURATION: Final = Kind("duration", "DURATION")
SIZE: Final = Kind("size", "SIZE")
TEXTS: Final = Kind("texts", "TEXT,…")
NAMED_TEXTS: Final = Kind("named texts", "NAME=TEXT;…")


def parse_duration(duration: str) -> float:
    """Return the seconds in ``duration``, such as "30s" or "2h30m"."""
    return _duration(duration, DURATION) / 1000
