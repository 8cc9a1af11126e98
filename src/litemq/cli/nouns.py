"""The nouns of the command, with the first line of their help. ``litemq --help`` shows them without loading a command."""

from __future__ import annotations

from typing import Final

import typer

__all__ = ["NOUNS", "new_noun"]

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
    """Create the ``app`` of the module for noun ``name``."""
    return typer.Typer(help=NOUNS[name], no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
