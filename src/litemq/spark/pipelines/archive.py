"""Archive pipeline: streams topics to a table, exactly once.

The stream's rows are spans of queues, not messages. Spark's checkpoint stores where each batch
begins and ends. For each batch, tasks fetch their spans from the brokers and write files. The
driver commits the files to the table under the batch's number, then reports the archived offsets to
the brokers. After a crash, an uncommitted batch is written again from the same spans; a committed
one is recognized by its number.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from litemq.errors import PipelineFailedError
from litemq.spark.fetch import QueueSpan, thread_cluster
from litemq.spark.pipelines.checkpoint import application_id
from litemq.spark.pipelines.compaction import compact_table
from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.pipelines.failures import litemq_error
from litemq.spark.pipelines.lag import archive_lag
from litemq.spark.pipelines.parsing import ParsedTables
from litemq.spark.pipelines.reporting import report_archived
from litemq.spark.pipelines.spans import check_topics, read_spans, spans_stream
from litemq.spark.pipelines.status import Status
from litemq.spark.pipelines.tasks import BatchWriter, SpanRows, TaskResult, plan_tasks, run_tasks
from litemq.spark.read.sampling import RowSizes
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.spark.tables.delta_spark import append_with_connector, check_connector
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.opening import create_table
from litemq.spark.tables.table import check_alone
from litemq.spark.tables.writing import Codec

__all__ = ["Archive"]

_LOG = logging.getLogger(__name__)
_POLL_INTERVAL_S: Final = 1
_VACUUM_EVERY_S: Final = 86_400.0
# Consecutive failures without a completed batch, such as brokers that stay down or Spark workers
# that do not start.
_MAX_FAILURES: Final = 8
_MAX_PAUSE_S: Final = 60


class _StoppedError(Exception):
    """Ends a stream that is being stopped, before it begins a batch."""


class Archive:
    """One run of the archive."""

    def __init__(
        self, spark: SparkSession, config: ArchiveConfig, *, print_line: Callable[[str], None] = _LOG.info
    ) -> None:
        self._spark = spark
        self._config = config
        self._print_line = print_line
        self._topics = check_topics(config)
        self._connector = config.table_format == "delta-spark"
        self._table = create_table(config.table, config.table_format)
        if self._connector:
            check_connector(spark, self._table.folder.as_uri())
        self._checkpoint = TableFolder(config.checkpoint_location)
        self._app_id = application_id(self._checkpoint, self._table)
        self._parsed = ParsedTables(spark, config, self._app_id)
        self._status = Status(config, self._table.identity())
        self._in_batch = threading.Lock()
        self._stopping = False
        self._failure: BaseException | None = None
        self._batches = 0
        self._vacuumed_at = time.monotonic()

    def run(self, *, once: bool = False, stopping: Callable[[], bool] = lambda: False) -> None:
        """Archive until no message is left, if ``once``, or until ``stopping`` returns true.

        A running batch is finished first.
        """
        if not self._topics:
            self._print_line("no topic to archive yet" + ("" if once else ": waiting for one"))
        failures = 0
        while True:
            before = self._batches
            try:
                self._follow(once, stopping)
            except PySparkException as error:
                failure = litemq_error(self._failure or error)
                failures = 1 if self._batches > before else failures + 1
                if not failure.retriable or failures >= _MAX_FAILURES or stopping():
                    self._status.set_state("failed", error=str(failure))
                    raise failure from error
                self._status.set_state("starting again", error=str(failure))
                self._print_line(f"the stream failed and is being restarted from its checkpoint: {failure}")
                time.sleep(min(2**failures, _MAX_PAUSE_S))  # give an overloaded or restarting broker time
            except (Py4JError, OSError) as error:
                failure = PipelineFailedError(
                    f"Spark's Java process has exited: {error}. "
                    "Start the archive again: it continues from its checkpoint"
                )
                self._status.set_state("failed", error=str(failure))
                raise failure from error
            except BaseException as error:
                self._status.set_state("failed", error=repr(error))
                raise
            else:
                self._status.set_state("stopped")
                if once and self._topics and not self._batches:
                    self._print_line("no new messages to archive")
                return

    def _follow(self, once: bool, stopping: Callable[[], bool]) -> None:
        self._failure = None
        self._stopping = False
        query = self._start(once)
        self._status.set_state("running")
        while not query.awaitTermination(_POLL_INTERVAL_S):
            if stopping():
                with self._in_batch:  # a running batch is finished first
                    self._stopping = True
                query.stop()  # without the lock: it waits for the stream, which may be about to begin a batch
                if self._failure is None:
                    return

    def _start(self, once: bool) -> StreamingQuery:
        spans = spans_stream(self._spark, self._config)
        writer = spans.writeStream.foreachBatch(self._archive_batch).option(
            "checkpointLocation", self._checkpoint.as_uri()
        )
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._config.trigger_ms} milliseconds").start()

    # A batch --------------------------------------------------------------------------------------

    def _archive_batch(self, rows: DataFrame, batch_id: int) -> None:
        with self._in_batch:
            if self._stopping:
                raise _StoppedError(f"the archive is stopping: batch {batch_id} is left to the next run")
            try:
                self._archive(read_spans(rows), batch_id)
            except BaseException as error:
                self._failure = error
                raise

    def _archive(self, spans: list[QueueSpan], batch_id: int) -> None:
        if not spans:
            return  # only new queues entered the checkpoint; their messages are in the next batch
        started = time.monotonic()
        self._table.refresh()
        last = self._table.last_batch(self._app_id)
        if last is not None and last >= batch_id:
            _LOG.info("batch %d is already in the table", batch_id)
            self._report(spans)
            return
        check_alone(self._table, self._app_id)
        done = self._write_with_connector(spans, batch_id) if self._connector else self._write(spans, batch_id)
        self._report(spans)
        self._batches += 1
        lost = [loss for one in done for loss in one.losses]
        for loss in lost:
            _LOG.warning(
                "%s: offsets %d … %d could not be archived: %s", loss.span, loss.span.begin, loss.span.end - 1, loss.why
            )
        line = self._status.batch(
            batch_id,
            rows=sum(one.rows for one in done),
            read_bytes=sum(one.read_bytes for one in done),
            files=sum(len(one.files) for one in done),
            lost=sum(loss.span.end - loss.span.begin for loss in lost),
            seconds=time.monotonic() - started,
            lag=archive_lag(thread_cluster(self._config.url), self._checkpoint, batch_id),
        )
        self._print_line(line)
        self._maintain()

    def _tasks(self, spans: list[QueueSpan]) -> list[list[QueueSpan]]:
        sizes = RowSizes(thread_cluster(self._config.url), spans)
        return plan_tasks(spans, sizes.mean_bytes, self._config.task_bytes, self._spark.sparkContext.defaultParallelism)

    def _write(self, spans: list[QueueSpan], batch_id: int) -> list[TaskResult]:
        codec = Codec.of(self._config.codec, self._config.codec_level)
        config = self._config
        writer = BatchWriter(config.url, self._table.folder, codec, config.fail_on_data_loss, config.read_from)
        done = run_tasks(self._spark.sparkContext, writer, self._tasks(spans))
        expected = sum(span.end - span.begin for span in spans)
        read = sum(one.rows + sum(loss.span.end - loss.span.begin for loss in one.losses) for one in done)
        if read != expected:
            raise PipelineFailedError(
                f"batch {batch_id} has {expected} messages, but {read} were read: nothing was committed"
            )
        files = [file for one in done for file in one.files]
        self._parsed.parse(files, batch_id)
        self._table.append(files, self._app_id, batch_id, alone=True)
        return done

    def _write_with_connector(self, spans: list[QueueSpan], batch_id: int) -> list[TaskResult]:
        tasks = [(pickle.dumps(task),) for task in self._tasks(spans)]
        schema = from_arrow_schema(MESSAGE_SCHEMA)
        task_rows = self._spark.createDataFrame(tasks, "task binary").repartition(len(tasks))
        rows = task_rows.mapInArrow(SpanRows(self._config.url, self._config.read_from).read, schema)
        append_with_connector(rows, self._table.folder.as_uri(), self._app_id, batch_id)
        return [TaskResult([], sum(span.end - span.begin for span in spans), 0, [])]

    def _report(self, spans: Iterable[QueueSpan]) -> None:
        refused = report_archived(thread_cluster(self._config.url), self._table.folder.location, spans)
        self._status.facts["not_noted"] = refused

    def _maintain(self) -> None:
        """Compact every ``compact_every_batches`` batches, a few groups at a time.

        Vacuum once a day.
        """
        every = self._config.compact_every_batches
        if not every or self._batches % every:
            return
        done = compact_table(
            self._spark, self._table, self._config, max_groups=4 * self._spark.sparkContext.defaultParallelism
        )
        if done.files_before:
            self._print_line(f"merged {done.files_before} files into {done.files_after}")
        if time.monotonic() - self._vacuumed_at >= _VACUUM_EVERY_S:
            self._vacuumed_at = time.monotonic()
            deleted = self._table.vacuum(self._config.vacuum_keep_ms / 1000, dry_run=False)
            self._print_line(f"deleted {len(deleted)} files that are no longer part of the table")
