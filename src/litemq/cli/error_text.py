"""Error messages of the client in the words of the command: options and keys of the TOML file.

The client names its Python arguments, such as ``deliver_at=`` and ``delivery_timeout_ms``. A user
of the command writes ``--deliver-at``, and ``send.delivery_timeout`` in a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from litemq.cli.configuration.tables import CLIENT

__all__ = ["in_command_words", "options_of"]

# Options whose names are not those of the arguments.
_OPTIONS: Final = {
    "group_id": "group",
    "ids": "id",
    "keys": "key",
    "max_messages": "limit",
    "messages_per_s": "rate",
    "most": "limit",
    "properties": "property",
    "reasons": "reason",
    "reset_id": "reset",
    "start_at": "start",
    "end_at": "end",
    "tags": "tag",
    "time": "to",
}
_ARGUMENT: Final = re.compile(r"(?<![\w.=-])([a-z]+(?:_[a-z]+)*)=(?!=|True|False)")
_SETTINGS: Final = {one.field: one.key for one in CLIENT.settings if one.field.endswith(("_ms", "_bytes"))}
_SETTING: Final = re.compile(rf"(?<![\w.])({'|'.join(_SETTINGS)})\b")


def options_of(command: Any) -> set[str]:
    """Return the long options of ``command`` and its subcommands."""
    return set(_options(command))


def _options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (option for option in parameter.opts if option.startswith("--"))
    for subcommand in getattr(command, "commands", {}).values():
        yield from _options(subcommand)


def in_command_words(message: str, options: set[str]) -> str:
    """Replace the arguments in ``message`` by the ``options`` of the command, and the settings."""

    def option(argument: re.Match[str]) -> str:
        name = argument[1]
        found = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
        if found not in options:
            return argument[0]
        has_value = argument.end() < len(message) and message[argument.end()] not in " ,:;)"
        return f"{found} " if has_value else found

    message = _ARGUMENT.sub(option, message)
    return _SETTING.sub(lambda setting: _SETTINGS[setting[1]], message)
