"""Generate the reference of errors and commands in ``docs/reference/``.

``--check`` only verifies that the pages are up to date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from litemq import errors
from litemq.cli.configuration.tables import TABLES
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_CODES, exit_code
from litemq.errors import LiteMQError

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
_GENERATED = "<!-- Written by tools/reference.py: change the code, then run `just reference`. -->\n"


def errors_page() -> str:
    """Return the page of all error classes, by code."""
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, LiteMQError)]
    lines = [
        "# Errors",
        "",
        _GENERATED,
        "Every error that LiteMQ raises on purpose is a `litemq.LiteMQError`. The code identifies the class",
        "on the wire and in the messages of the command, and is never reused. *Retriable*: the same call may",
        "succeed if repeated. *Exit*: the exit code of the command.",
        "",
        "| code | class | base | retriable | exit | meaning, and what to do |",
        "|---|---|---|---|---|---|",
    ]
    for cls in sorted(classes, key=lambda one: one.code):
        text = " ".join(inspect.cleandoc(cls.__doc__ or "").replace("``", "`").split())
        base = "" if cls is LiteMQError else f"`{cls.__bases__[0].__name__}`"
        retriable = "yes" if cls.retriable else "no"
        lines.append(f"| {cls.code} | `{cls.__name__}` | {base} | {retriable} | {exit_code(cls)} | {_cell(text)} |")
    return "\n".join(lines) + "\n"


def command_page() -> str:
    """Return the page of all commands with their arguments, options, variables and exit codes."""
    lines = [
        "# The `litemq` command",
        "",
        _GENERATED,
        "`litemq-admin` is the same command. Options have an environment variable, except those that confirm",
        "a change, such as `--yes`. An option overrides its variable, which overrides the `--config` file, which",
        "overrides the default.",
        "`litemq config show --origin` shows the source of each value.",
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {_cell(text)} |" for code, text in EXIT_CODES.items()),
        "",
        "An error is one line on standard error: `error <class> (<code>): <message>`. For invalid options and",
        "arguments, there is the usage first, and the line begins with `Error:`.",
        "[errors.md](errors.md) lists all errors.",
        "",
        "## Commands",
        *_commands(typer.main.get_command(app), "litemq", "LITEMQ"),
        "",
        "## Configuration files",
    ]
    for table in TABLES.values():
        lines += [
            "",
            f"### `configs/{table.program}.toml`",
            "",
            "| key | default | option | variable | |",
            "|---|---|---|---|---|",
        ]
        for setting in table.settings:
            default = setting.kind.show(table.defaults[setting.field])
            shown = (
                ", ".join(default)
                if isinstance(default, list)
                else str(default).lower()
                if isinstance(default, bool)
                else default
            )
            cell = f"`{shown}`" if shown != "" else ""
            variable = table.variable(setting)
            lines.append(f"| `{setting.key}` | {cell} | `{setting.flag}` | `{variable}` | {_cell(setting.help)} |")
    return "\n".join(lines) + "\n"


def _commands(command: Any, path: str, variable: str) -> Iterator[str]:
    if path != "litemq":
        yield from ("", f"### `{path}`", "", " ".join((command.help or "").split()))
    rows = [_option(one, variable) for one in command.params if path != "litemq" and not getattr(one, "hidden", False)]
    if rows:
        yield from ("", "| | variable | |", "|---|---|---|", *rows)
    if hasattr(command, "list_commands"):
        context = typer.Context(command, info_name=path)
        for name in sorted(command.list_commands(context)):
            yield from _commands(
                command.get_command(context, name), f"{path} {name}", f"{variable}_{name}".upper().replace("-", "_")
            )


def _option(parameter: Any, prefix: str) -> str:
    if parameter.param_type_name != "option":
        return f"| `{parameter.metavar or parameter.name.upper()}` | | {_cell(getattr(parameter, 'help', '') or '')} |"
    given = parameter.envvar or (f"{prefix}_{parameter.name}".upper() if parameter.allow_from_autoenv else "")
    variables = [given] if isinstance(given, str) else list(given)
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    text = parameter.help or ""
    if not variables[0] and "[LITEMQ_" in text:  # the help of a setting contains its variable
        text, _, rest = text.rpartition(" [")
        variables = [rest.rstrip("]").partition(";")[0]]
    return f"| {names} | {', '.join(f'`{one}`' for one in variables if one)} | {_cell(text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"errors.md": errors_page, "cli.md": command_page}


def main() -> None:
    """Write the pages, or check them with ``--check``."""
    stale = [
        name for name, page in PAGES.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != page()
    ]
    if "--check" in sys.argv:
        sys.exit(f"docs/reference/ is out of date ({', '.join(stale)}): run `just reference`" if stale else 0)
    for name in stale:
        (FOLDER / name).write_text(PAGES[name]())


if __name__ == "__main__":
    main()
