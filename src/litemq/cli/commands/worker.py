"""``litemq worker``: a program's handlers in processes of their own, which are replaced when they are worn out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from litemq.cli.configuration.kinds import parse_duration
from litemq.cli.nouns import new_noun
from litemq.cli.options import LogLevel
from litemq.cli.processes.worker_pool import WorkerPool, WorkerSettings
from litemq.cli.rendering.logs import Level, log_to_stderr
from litemq.errors import InvalidArgumentError

__all__ = ["app"]

app = new_noun("worker")


@app.command("worker")
def worker(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="The module, and the client in it, such as shop.handlers:mq.", show_default=False)
    ],
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            max=10_000,
            help="Messages at the same time, for each handler that says nothing itself.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, max=256, help="How many processes.")] = 1,
    shutdown_timeout: Annotated[
        str, typer.Option("--shutdown-timeout", metavar="DURATION", help="How long handlers that run may take to finish after a stop.")
    ] = "30s",
    stall_timeout: Annotated[
        str,
        typer.Option(
            "--stall-timeout", metavar="DURATION", help="A process whose event loop does not turn for so long is ended, and replaced."
        ),
    ] = "60s",
    log_level: LogLevel = Level.INFO,
) -> None:
    """Run the handlers and tasks that a client in a module has, until Ctrl-C or SIGTERM.

    The module is imported from the current directory, or from what is installed. The first signal takes no more messages and lets handlers
    finish; the second gives back what is not done. A process in which a handler overran its time limit and cannot be stopped is replaced.
    """
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise typer.BadParameter(f"{target!r}: write module:name, such as shop.handlers:mq", param_hint="MODULE:NAME")
    log_to_stderr(log_level, "worker")
    settings = WorkerSettings(
        module=module,
        name=name,
        directory=str(Path.cwd()),
        level=log_level,
        concurrency=concurrency,
        shutdown_s=_seconds(shutdown_timeout, "--shutdown-timeout"),
        stall_s=_seconds(stall_timeout, "--stall-timeout"),
    )
    WorkerPool(settings, processes, ready=_announce).run()


def _announce(target: str, processes: int, handlers: list[str]) -> None:
    count = f"{processes} process{'es' if processes > 1 else ''}"
    sys.stdout.write(f"{target} is at work in {count}: {', '.join(handlers)}\n")
    sys.stdout.flush()


def _seconds(duration: str, flag: str) -> float:
    seconds = parse_duration(duration)
    if seconds <= 0:
        raise InvalidArgumentError(f"{flag} {duration}: choose more than nothing, such as 30s")
    return seconds
