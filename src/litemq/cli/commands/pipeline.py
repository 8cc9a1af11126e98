"""``litemq pipeline``: archive messages to a table with Spark, look after the table, see how far it is."""

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
from litemq.cli.configuration.resolve import Chosen, build
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
    """Archive messages to a table with Spark, look after the table, see how far it is."""


@run.callback()
def run_pipeline() -> None:
    """Run a pipeline, here or on the Spark cluster that it is told of."""


@run.command("archive")
@with_settings(ARCHIVE)
def archive(
    *,
    once: Annotated[bool, typer.Option("--once", help="Archive what is there now, and end.")] = False,
    log_level: LogLevel = Level.INFO,
    chosen: dict[str, Chosen],
) -> None:
    """Archive topics to a table, exactly once, until Ctrl-C or SIGTERM: the batch that is being written is finished first.

    However it ended, the next start goes on where it was. A second signal ends it at once.
    """
    config: ArchiveConfig = build(ARCHIVE, chosen)
    log_to_stderr(log_level, "archive")
    _check_spark()
    from litemq.spark.pipelines.archive import Archive
    from litemq.spark.pipelines.run_lock import hold_run_lock
    from litemq.spark.pipelines.session import session_for
    from litemq.spark.pipelines.spans import check_topics

    check_topics(config)  # whoever has no broker, or no such topic, need not wait for Spark to hear of it
    stop = _StopSignals()
    with hold_run_lock(config), stop, session_for(config, "litemq archive") as spark:
        stop.listen()  # a session listens to Ctrl-C itself, and cancels what is being written
        if not stop.requested():
            Archive(spark, config, say=_print_line).run(once=once, stopping=stop.requested)


@run.command("compact")
@with_settings(ARCHIVE)
def compact(*, log_level: LogLevel = Level.INFO, chosen: dict[str, Chosen]) -> None:
    """Join the table's small files, of hours that are over. The archive may run meanwhile; whoever reads the table sees the same rows."""
    config: ArchiveConfig = build(ARCHIVE, chosen)
    log_to_stderr(log_level, "compact")
    _check_spark()
    from litemq.spark.pipelines.compaction import compact_table
    from litemq.spark.pipelines.session import session_for
    from litemq.spark.tables.opening import open_table

    table = open_table(config.table)
    with session_for(config, "litemq compact") as spark:
        done = compact_table(spark, table, config)
    _print_line(f"joined {done.files_before} files into {done.files_after}, {done.bytes_after / 1e6:,.0f} MB")


@run.command("vacuum")
@with_settings(ARCHIVE)
def vacuum(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    chosen: dict[str, Chosen],
) -> None:
    """Delete files that the table has not named for a while: replaced ones, and what a task left behind that was killed."""
    config: ArchiveConfig = build(ARCHIVE, chosen)
    from litemq.spark.tables.opening import open_table

    gone = open_table(config.table).vacuum(config.vacuum_keep_ms / 1000, dry_run=dry_run)
    for path in gone:
        _print_line(plain(path, 500))
    _print_line(f"{'would delete' if dry_run else 'deleted'} {len(gone)} files")


@app.command("status")
@with_settings(ARCHIVE)
def status(*, output: Format = OutputFormat.TABLE, chosen: dict[str, Chosen]) -> None:
    """Show how far the archive is: what it has said of itself after its last batch. Nothing is asked of Spark."""
    config: ArchiveConfig = build(ARCHIVE, chosen)
    from litemq.spark.pipelines.status import read_status, status_rows

    found = read_status(config)
    if output is OutputFormat.TABLE:
        write_table([["", ""], *status_rows(found)][1:])
    else:
        write_value(found, output)


def _check_spark() -> None:
    """Say what is missing before anything begins: Spark's own words for it are long."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError("a pipeline", "spark")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise UnsupportedFeatureError("Spark needs Java 17, and there is none: install it, or set JAVA_HOME to where it is")


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class _StopSignals(contextlib.AbstractContextManager["_StopSignals"]):
    """The first signal asks for an end; the next one is as if nobody listened."""

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
        """From now on, whoever else does; unless the first signal has come."""
        if not self._requested:
            for number in self._before:
                signal.signal(number, self._request_stop)

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _request_stop(self, _number: int, _frame: object) -> None:
        self._requested = True
        sys.stderr.write("stopping after this batch; once more ends it at once\n")
        self._restore()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
