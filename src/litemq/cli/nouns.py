"""Nouns of the command with their help, so that ``litemq --help`` loads no command."""

from __future__ import annotations

from typing import Final

import typer
from typer.models import Default

__all__ = ["NOUNS", "new_noun"]

# Each module ``litemq.cli.commands.<name>`` has an ``app``.
NOUNS: Final = {
    "bench": "Run benchmarks.",
    "broker": "Run a broker, or list the brokers of a cluster.",
    "cluster": "Show the state of a cluster; switch, elect and recover masters of replicated groups.",
    "config": "Show settings and where they come from, or write a configuration file.",
    "dlq": "Inspect, redrive and purge dead letters.",
    "group": "Inspect, reset, pause and delete consumer groups.",
    "job": "Manage jobs, which send messages on a schedule.",
    "message": "Send, tail and look up messages, and explain why one was not consumed.",
    "nameserver": "Run a NameServer.",
    "pipeline": "Archive messages to a table with Spark, maintain the table, and show progress.",
    "store": "Inspect, verify, rebuild, export and import a data directory offline.",
    "timer": "List, cancel and reschedule delayed messages.",
    "topic": "Create, alter, describe and delete topics.",
    "tx": "List, commit and roll back pending transactions.",
    "up": "Run a NameServer and a broker on this machine, for development.",
    "worker": "Run the handlers and tasks of a client.",
}


def new_noun(name: str, *, runs: bool = False) -> typer.Typer:
    """Create the ``app`` of the module for noun ``name``; ``runs``: it is a command by itself."""
    return typer.Typer(
        help=Default(None) if runs else NOUNS[name],  # a command has a docstring, which ``None`` would hide
        subcommand_metavar="[COMMAND]" if runs else None,
        no_args_is_help=not runs,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
