"""Resolution of settings: a flag wins over the environment, then TOML, then the default."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from litemq.cli.configuration.kinds import NAMED_TEXTS, TEXT, Kind
from litemq.cli.configuration.setting import Setting, Table
from litemq.errors import ConfigurationError, InvalidArgumentError

__all__ = ["ResolvedSetting", "build", "resolve"]


class ResolvedSetting(NamedTuple):
    """A setting's value, and the flag, variable or file key it came from."""

    setting: Setting
    value: Any
    origin: str


def resolve(
    table: Table, *, flags: Mapping[str, object], environment: Mapping[str, str], file: Path | None = None
) -> dict[str, ResolvedSetting]:
    """Resolve every setting of ``table``, by field.

    ``flags`` holds the flags by field; a flag that is ``None`` was not given.
    """
    in_file = _read_file(table, file) if file is not None else {}
    chosen = {}
    for setting in table.settings:
        flag, variable = setting.flag, table.variable(setting)
        if flags.get(setting.field) is not None:
            value, origin = flags[setting.field], flag
        elif variable in environment:
            value, origin = environment[variable], variable
        elif setting.key in in_file:
            value, origin = in_file[setting.key], f"{file}: {setting.key}"
        else:
            chosen[setting.field] = ResolvedSetting(setting, table.defaults[setting.field], "default")
            continue
        try:
            chosen[setting.field] = ResolvedSetting(setting, setting.kind.read(value), origin)
        except ConfigurationError as error:
            raise ConfigurationError(f"{origin}: {error}") from None
    return chosen


def build(table: Table, chosen: Mapping[str, ResolvedSetting]) -> Any:
    """Build the program's configuration. An error names the origin of the invalid value."""
    try:
        return table.config_type(
            **{field: one.value for field, one in chosen.items() if field not in table.other_defaults}
        )
    except InvalidArgumentError as error:
        text = str(error)
        named = [one for field, one in chosen.items() if re.search(rf"^{field} |(?<![\w.]){field}=", text)]
        message = _with_keys(text, chosen, named[0].setting.kind if named else TEXT)
        origins = " and ".join(one.origin for one in named if one.origin != "default")
        raise ConfigurationError(f"{origins}: {message}" if origins else message) from None


def _with_keys(message: str, chosen: Mapping[str, ResolvedSetting], kind: Kind) -> str:
    """Replace fields by their TOML keys, and numbers by the durations or sizes of ``kind``."""
    if kind.name in ("duration", "size"):
        message = re.sub(r"(?<![\w.-])\d+(?![\w.])", lambda number: str(kind.show(int(number[0]))), message)
    for field, one in chosen.items():
        end = "\\b" if "_" in field else "(?==| is empty)"  # other fields are words of the language
        message = re.sub(rf"(?<![\w.])({field}){end}", one.setting.key, message)
    return message


def _read_file(table: Table, file: Path) -> dict[str, object]:
    """Read a TOML file, by dotted key.

    An unknown key is an error, since it would have no effect.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from None
    known = [setting.key for setting in table.settings]
    whole = {setting.key for setting in table.settings if setting.kind == NAMED_TEXTS}
    found = dict(_leaves(document, "", known, whole))
    for key in found:
        if key not in known:
            raise ConfigurationError(f"{file}: {key}: unknown setting{_suggestion(key, known)}")
    return found


def _leaves(
    values: Mapping[str, object], prefix: str, known: list[str], whole: set[str]
) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in whole and (value or any(one.startswith(f"{key}.") for one in known)):
            yield from _leaves(value, f"{key}.", known, whole)
        else:
            yield key, value


def _suggestion(key: str, known: list[str]) -> str:
    """Suggest the closest key: nearly the same one, or the same word in another section."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    same_word = [one for one in known if one.rpartition(".")[2] == key.rpartition(".")[2]]
    words = {one.rpartition(".")[2]: one for one in known}
    near_word = [words[word] for word in difflib.get_close_matches(key.rpartition(".")[2], words, n=1, cutoff=0.75)]
    for found in (near, same_word, near_word):
        if found:
            return f"; did you mean {found[0]}?"
    return f". Known settings: {', '.join(known)}"
