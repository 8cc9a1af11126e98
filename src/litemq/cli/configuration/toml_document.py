"""Settings as a TOML document that ``--config`` reads back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import NamedTuple

from litemq.cli.configuration.setting import Setting

__all__ = ["Entry", "toml_document"]

_COLUMNS = 98


class Entry(NamedTuple):
    """A setting and its value; ``above`` and ``behind`` are comments."""

    setting: Setting
    value: object
    above: str = ""
    behind: str = ""


def toml_document(entries: Iterable[Entry]) -> str:
    """Return ``entries`` as TOML, section by section, first those outside of sections."""
    sections: dict[str, list[str]] = {"": []}
    for entry in entries:
        section, _, name = entry.setting.key.rpartition(".")
        lines = sections.setdefault(section, [])
        lines += [f"# {line}" for line in wrap(entry.above, _COLUMNS, break_on_hyphens=False)]
        behind = f"  # {entry.behind}" if entry.behind else ""
        lines.append(_assignment(entry, name) + behind)
        if entry.above:
            lines.append("")
    parts = []
    for section, lines in sections.items():
        if lines:
            parts.append("\n".join([f"[{section}]", *lines] if section else lines).rstrip())
    return "\n\n".join(parts) + "\n"


def _assignment(entry: Entry, name: str) -> str:
    kind, value = entry.setting.kind, entry.value
    if value is None and not kind.may_be_none:  # TOML has no value for it
        return f"# {name} = {_toml(kind.choices[-1] if kind.choices else '')}"
    return f"{name} = {_toml(value if isinstance(value, Mapping) else kind.show(value))}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_string(str(name))} = {_toml(text)}" for name, text in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return _string(str(value))


def _string(text: str) -> str:
    """Quote ``text``: the strings of JSON are strings of TOML, which also escapes DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
