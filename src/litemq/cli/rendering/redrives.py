"""A redrive as a terminal shows it: how far it is, and how it ended."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Final

import typer

from litemq.cli.rendering.exit_codes import EXIT_FAILED
from litemq.cli.rendering.output import OutputFormat, write_value

if TYPE_CHECKING:
    from litemq.client.dead_letters.redrive import Redrive
    from litemq.client.engine.dead_letters import RedriveProgress

__all__ = ["follow", "show_progress"]

_EVERY_SECONDS: Final = 1.0


async def follow(redrive: Redrive, output: OutputFormat) -> RedriveProgress:
    """Wait for its end; for people, on standard error, tell how far it is. Ctrl-C stops it where it is."""
    loop = asyncio.get_running_loop()
    ending = asyncio.ensure_future(redrive.wait())
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    interrupted = asyncio.ensure_future(stopping.wait())
    try:
        while not ending.done():
            await asyncio.wait((ending, interrupted), timeout=_EVERY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if interrupted.done():
                return await redrive.cancel()
            if not ending.done() and output is OutputFormat.TABLE and sys.stderr.isatty():
                progress = await redrive.progress()
                sys.stderr.write(f"\r{progress.examined} of {progress.letters} looked at, {progress.done} of {progress.selected} done")
                sys.stderr.flush()
        return ending.result()
    finally:
        ending.cancel()
        interrupted.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def show_progress(progress: RedriveProgress, done: str, would: str, output: OutputFormat, *, dry_run: bool) -> None:
    """How it ended. Exits with 1 where it was stopped before, or failed."""
    if output is not OutputFormat.TABLE:
        write_value({**progress._asdict(), "left": progress.left}, output)
    else:
        number, words = (progress.left, would) if dry_run else (progress.done, done)
        sys.stdout.write(f"{words} {number} of {progress.selected} dead letters\n")
        for count, what in (
            (progress.expired, "stay: their time to live is over, give them a new one with --ttl SECONDS"),
            (progress.gone, "were sent on or dropped by somebody else"),
            (progress.damaged, "stay: they cannot be read, the broker's log says why"),
            (progress.skipped, "stay: nothing was made of them"),
        ):
            if count:
                sys.stdout.write(f"{count} {what}\n")
    if progress.state == "cancelled":
        typer.echo(f"it was stopped; {progress.left} are left, and the same command goes on with them", err=True)
    elif progress.state == "failed":
        typer.echo(f"it failed: {progress.problem}", err=True)
    if progress.state != "done":
        raise typer.Exit(EXIT_FAILED)
