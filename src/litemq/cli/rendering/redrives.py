"""Output of a redrive or purge: its progress and its result."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Final

import typer

from litemq.cli.rendering.exit_codes import EXIT_FAILED
from litemq.cli.rendering.output import OutputFormat, counted, write_value

if TYPE_CHECKING:
    from litemq.client.dead_letters.redrive import Redrive
    from litemq.client.engine.dead_letters import RedriveProgress

__all__ = ["follow", "show_progress"]

_EVERY_SECONDS: Final = 1.0


async def follow(redrive: Redrive, output: OutputFormat) -> RedriveProgress:
    """Wait until ``redrive`` ends, and show progress on a terminal's standard error.

    Ctrl-C cancels it.
    """
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
                sys.stderr.write(
                    f"\rexamined {progress.examined} of {progress.letters}, done {progress.done} of {progress.selected}"
                )
                sys.stderr.flush()
        return ending.result()
    finally:
        ending.cancel()
        interrupted.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def show_progress(progress: RedriveProgress, done: str, would: str, output: OutputFormat, *, dry_run: bool) -> None:
    """Print the result. Exit with 1 if the redrive was cancelled or failed."""
    if output is not OutputFormat.TABLE:
        write_value({**progress._asdict(), "left": progress.left}, output)
    else:
        number, words = (progress.left, would) if dry_run else (progress.done, done)
        sys.stdout.write(f"{words} {number} of {counted(progress.selected, 'dead letter')}\n")
        for count, what in (
            (progress.expired, "kept: their TTL has expired; set a new one with --ttl SECONDS"),
            (progress.gone, "already redriven or purged by another caller"),
            (progress.damaged, "kept: cannot be read; see the broker's log"),
            (progress.skipped, "kept: the transform returned no message"),
        ):
            if count:
                sys.stdout.write(f"{count} {what}\n")
    if progress.state == "cancelled":
        typer.echo(f"stopped; {progress.left} left: run the same command again to continue", err=True)
    elif progress.state == "failed":
        typer.echo(f"failed: {progress.problem}", err=True)
    if progress.state != "done":
        raise typer.Exit(EXIT_FAILED)
