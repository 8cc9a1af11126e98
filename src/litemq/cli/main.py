"""Root of the ``litemq`` command: global options, lazy loading of nouns, and error output.

A noun's module is imported when the noun is called, so ``litemq up`` does not pay for the imports
of ``litemq store``.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from litemq import __version__
from litemq.cli.error_text import in_command_words, options_of
from litemq.cli.nouns import NOUNS
from litemq.cli.partial import reports_missing
from litemq.cli.rendering.exit_codes import EXIT_FAILED, exit_code
from litemq.cli.suggestions import closest
from litemq.errors import LiteMQError

__all__ = ["app", "run"]


class LazyNouns(TyperGroup):
    """The group of all nouns. It imports the module of a noun when the noun is called."""

    called: ClassVar[Any] = None  # the command of the noun that was called

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._loads = True

    def get_params(self, ctx: Any) -> Any:
        """Return the options. None has a variable, also not typer's --install-completion."""
        for parameter in self.params:
            if isinstance(parameter, TyperOption):
                parameter.allow_from_autoenv = False
        return super().get_params(ctx)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (typer's signature)
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in NOUNS:
            return None
        if not self._loads:
            return TyperCommand(cmd_name, help=NOUNS[cmd_name])
        LazyNouns.called = typer.main.get_command(importlib.import_module(f"litemq.cli.commands.{cmd_name}").app)
        return LazyNouns.called

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the nouns without importing their modules."""
        self._loads = False
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._loads = True

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Suggest the closest noun if the given one is unknown."""
        if args and args[0] not in NOUNS and not ctx.resilient_parsing:
            near = closest(args[0], NOUNS)
            if near:
                ctx.fail(f"No such command {args[0]!r}{near}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with reports_missing():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """List the nouns with their help, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(NOUNS.items()))


app = typer.Typer(
    name="litemq",
    cls=LazyNouns,
    help="LiteMQ: a message queue for Python teams, whose log is a table for Spark.",
    epilog="Exit codes: 0 success, 1 failure or missed goal, 2 wrong usage, 3 not found, 4 unreachable, 5 in use, "
    "6 outcome unknown, 7 retry later, 8 incomplete, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "LITEMQ"},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"litemq {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
            allow_from_autoenv=False,
        ),
    ] = False,
) -> None:
    """LiteMQ: a message queue for Python teams, whose log is a table for Spark."""


def run() -> None:
    """Run the command. An error is printed as one line, never as a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a character
    try:
        try:
            app(standalone_mode=True)
        finally:
            sys.stdout.flush()
    except LiteMQError as error:
        options = options_of(LazyNouns.called) if LazyNouns.called is not None else set()
        _print_error(f"{type(error).__name__} ({error.code}): {in_command_words(str(error), options)}")
        sys.exit(exit_code(type(error)))
    except BrokenPipeError:
        # The reader closed the pipe (`litemq … | head`): there is nothing to report.
        _discard_output()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _discard_output()
        _print_error(str(error))
        sys.exit(EXIT_FAILED)


def _print_error(message: str) -> None:
    typer.secho("error", fg="red", bold=True, err=True, nl=False)
    sys.stderr.write(f" {message}\n")


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
