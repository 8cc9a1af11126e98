"""The nouns of the command. Each is loaded when it is called: ``litemq up`` does not wait for what ``litemq store`` needs."""

from __future__ import annotations

import importlib
from typing import Any, Final

import typer
from typer.core import TyperGroup

__all__ = ["NOUNS", "Nouns", "new_noun"]

# Each module ``litemq.cli.commands.<name>`` has an ``app``.
NOUNS: Final = {
    "bench": "Measure LiteMQ on this machine.",
    "broker": "Run a broker.",
    "config": "Show the settings, and where each comes from.",
    "dlq": "List dead letters, see which errors they share, send them on.",
    "group": "Show what consumer groups have left to do, set their offsets and back, pause and delete them.",
    "job": "Send messages at the times of a schedule: create such jobs, look at them, pause and trigger them.",
    "message": "Send messages, follow a topic, look one up, ask why it was not consumed.",
    "nameserver": "Run a NameServer.",
    "pipeline": "Archive messages to a table with Spark, look after the table, see how far it is.",
    "store": "Look at a data directory, and carry messages out of it and into it, without a broker.",
    "timer": "List delayed messages, cancel them, deliver them at another time.",
    "topic": "Create, delete, list and describe topics.",
    "tx": "List transactions that wait for their outcome, look at one, commit it, roll it back.",
    "up": "Run a NameServer and a broker here, for development.",
    "worker": "Run the handlers and tasks of a program.",
}


def new_noun(name: str) -> typer.Typer:
    """The ``app`` of a noun's module."""
    return typer.Typer(help=NOUNS[name], no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Nouns(TyperGroup):
    """The root of the command."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (typer's signature)
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in NOUNS:
            return None
        return typer.main.get_command(importlib.import_module(f"litemq.cli.commands.{cmd_name}").app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Their first lines, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(NOUNS.items()))
