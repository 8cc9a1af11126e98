"""``litemq worker``: the handlers of a client, run in a pool of processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from litemq.cli.configuration.kinds import parse_duration
from litemq.cli.connecting import url_option
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
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="Module and the name of the client in it, such as shop.handlers:mq.",
            show_default=False,
        ),
    ],
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            max=10_000,
            help="Concurrent messages per handler, for handlers that do not set it.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, max=256, help="Number of processes.")] = 1,
    handlers: Annotated[
        list[str] | None,
        typer.Option("--handler", metavar="NAME", help="Run only the handler with this function name; repeatable."),
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="Run only handlers of this topic; repeatable.")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", help="Run only handlers of this consumer group; repeatable.")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="For development: restart when a Python file of the directory changes.")
    ] = False,
    url: Annotated[str | None, url_option("the URL of the client")] = None,
    shutdown_timeout: Annotated[
        str,
        typer.Option(
            "--shutdown-timeout", metavar="DURATION", help="Maximum time for running handlers to finish after a stop."
        ),
    ] = "30s",
    stall_timeout: Annotated[
        str,
        typer.Option(
            "--stall-timeout",
            metavar="DURATION",
            help="Time after which a process with a blocked event loop is killed and replaced.",
        ),
    ] = "60s",
    log_level: LogLevel = Level.INFO,
) -> None:
    """Run the handlers and tasks of a client until Ctrl-C or SIGTERM.

    The module is imported from the current directory or from the installed packages. Missing topics
    of the handlers are created if the brokers allow it. The first signal stops receiving messages
    and lets handlers finish; the second returns unfinished messages. A process is replaced if a
    handler exceeds its time limit and cannot be stopped.
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
        url=url or None,
        handlers=handlers or (),
        topics=topics or (),
        groups=groups or (),
        reload=reload,
    )
    WorkerPool(settings, processes, ready=_announce).run()


def _announce(target: str, processes: int, handlers: list[str]) -> None:
    count = f"{processes} process{'es' if processes > 1 else ''}"
    sys.stdout.write(f"{target} is running in {count}: {', '.join(handlers)}\n")
    sys.stdout.flush()


def _seconds(duration: str, flag: str) -> float:
    seconds = parse_duration(duration)
    if seconds <= 0:
        raise InvalidArgumentError(f"{flag} {duration}: choose a positive duration, such as 30s")
    return seconds
