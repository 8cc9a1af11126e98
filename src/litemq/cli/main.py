"""The command's root: global options, the nouns, and what an error looks like."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from litemq import __version__
from litemq.cli import bench
from litemq.errors import LiteMQError

__all__ = ["app", "main"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="litemq",
    help="LiteMQ: a message queue for Python teams, whose log is a table for Spark.",
    epilog="Exit codes: 0 done, 1 failed or a goal was missed, 2 wrong usage, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "LITEMQ"},
)
app.add_typer(bench.app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"litemq {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True, show_envvar=False),
    ] = False,
) -> None:
    """LiteMQ: a message queue for Python teams, whose log is a table for Spark."""


def main() -> None:
    """Run the command; an error of ours is one line that says what to do, never a traceback."""
    try:
        app(standalone_mode=True)
    except LiteMQError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error[/] {type(error).__name__}: ", end="")
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader went away (`litemq … | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
