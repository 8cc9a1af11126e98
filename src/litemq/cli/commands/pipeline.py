"""``litemq pipeline``: archive messages with Spark, maintain the table, show progress."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from litemq.cli.configuration.flags import with_settings
from litemq.cli.configuration.resolve import ResolvedSetting, build
from litemq.cli.configuration.tables import ARCHIVE
from litemq.cli.nouns import new_noun
from litemq.cli.options import LogLevel
from litemq.cli.rendering.logs import Level, log_to_stderr
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_table, write_value
from litemq.errors import MissingExtraError, UnsupportedFeatureError

if TYPE_CHECKING:
    from litemq.spark.pipelines.config import ArchiveConfig

__all__ = ["app"]

app = new_noun("pipeline")
run = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(run, name="run")


@app.callback()
def pipeline() -> None:
    """Archive messages to a table with Spark, maintain the table, and show progress."""


@run.callback()
def run_pipeline() -> None:
    """Run a pipeline on this machine or on a Spark cluster."""


@run.command("archive")
@with_settings(ARCHIVE)
def archive(
    *,
    once: Annotated[bool, typer.Option("--once", help="Archive all current messages, then exit.")] = False,
    log_level: LogLevel = Level.INFO,
    chosen: dict[str, ResolvedSetting],
) -> None:
    """Archive topics to a table, exactly once, until Ctrl-C or SIGTERM.

    The first signal finishes the current batch, the second one exits immediately. The next start
    continues from the checkpoint in either case.
    """
    config: ArchiveConfig = build(ARCHIVE, chosen)
    log_to_stderr(log_level, "archive")
    _check_spark()
    from litemq.spark.pipelines.archive import Archive
    from litemq.spark.pipelines.run_lock import hold_run_lock
    from litemq.spark.pipelines.session import session_for
    from litemq.spark.pipelines.spans import check_topics

    check_topics(config)  # fail before the slow start of Spark
    stop = _StopSignals()
    with hold_run_lock(config), stop, session_for(config, "litemq archive") as spark:
        stop.listen()  # Spark's own handler, installed by the session, would cancel the batch
        if not stop.requested():
            Archive(spark, config, print_line=_print_line).run(once=once, stopping=stop.requested)


@run.command("compact")
@with_settings(ARCHIVE)
def compact(*, log_level: LogLevel = Level.INFO, chosen: dict[str, ResolvedSetting]) -> None:
    """Merge small files of past hours.

    Safe while the archive runs; readers of the table see the same rows.
    """
    config: ArchiveConfig = build(ARCHIVE, chosen)
    log_to_stderr(log_level, "compact")
    _check_spark()
    from litemq.spark.pipelines.compaction import compact_table
    from litemq.spark.pipelines.session import session_for
    from litemq.spark.tables.opening import open_table

    table = open_table(config.table)
    with session_for(config, "litemq compact") as spark:
        done = compact_table(spark, table, config)
    _print_line(f"merged {done.files_before} files into {done.files_after}, {done.bytes_after / 1e6:,.0f} MB")


@run.command("vacuum")
@with_settings(ARCHIVE)
def vacuum(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the files that would be deleted.")] = False,
    chosen: dict[str, ResolvedSetting],
) -> None:
    """Delete files that are no longer part of the table, such as compacted ones."""
    config: ArchiveConfig = build(ARCHIVE, chosen)
    from litemq.spark.tables.opening import open_table

    deleted = open_table(config.table).vacuum(config.vacuum_keep_ms / 1000, dry_run=dry_run)
    for path in deleted:
        _print_line(plain(path, 500))
    _print_line(f"{'would delete' if dry_run else 'deleted'} {len(deleted)} files")


@app.command("status")
@with_settings(ARCHIVE)
def status(*, output: Format = OutputFormat.TABLE, chosen: dict[str, ResolvedSetting]) -> None:
    """Show the progress of the archive, as of its last batch. Does not start Spark."""
    config: ArchiveConfig = build(ARCHIVE, chosen)
    from litemq.spark.pipelines.status import read_status, status_rows

    found = read_status(config)
    if output is OutputFormat.TABLE:
        write_table([["", ""], *status_rows(found)][1:])
    else:
        write_value(found, output)


def _check_spark() -> None:
    """Raise if PySpark or Java is missing. Spark's own error would be long."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError("a pipeline", "spark")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise UnsupportedFeatureError("Spark needs Java 17, which was not found: install it, or set JAVA_HOME")


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class _StopSignals(contextlib.AbstractContextManager["_StopSignals"]):
    """Signal handlers: the first signal requests a stop and restores the previous handlers."""

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}

    def requested(self) -> bool:
        return self._requested

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self.listen()
        return self

    def listen(self) -> None:
        """Install the handlers over any others, unless a stop has been requested."""
        if not self._requested:
            for number in self._before:
                signal.signal(number, self._request_stop)

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _request_stop(self, _number: int, _frame: object) -> None:
        self._requested = True
        sys.stderr.write("stopping after this batch; press Ctrl-C again to exit immediately\n")
        self._restore()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
