"""The archive: topics to a table, as a stream, exactly once.

The stream's rows are spans of queues, not messages: where a batch begins and ends is decided by the source and kept in Spark's checkpoint.
For each batch, tasks fetch their spans from the brokers and write files; the driver commits them to the table under the batch's number, and
then tells the brokers how far each queue is archived. Whatever is killed when: a batch without a commit is done anew from the same spans,
and one that is in the table is known by its number.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from litemq.errors import LiteMQError, PipelineError
from litemq.spark.fetch import QueueSpan
from litemq.spark.pipelines.checkpoint import application_of
from litemq.spark.pipelines.compaction import compact_table
from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.pipelines.status import Status
from litemq.spark.pipelines.tasks import BatchWriting, Written, plan_tasks
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.opening import create_table
from litemq.spark.tables.writing import Codec

__all__ = ["Archive"]

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 0.2
_VACUUM_EVERY_S: Final = 86_400.0


class Archive:
    """One run of the archive."""

    def __init__(self, spark: SparkSession, config: ArchiveConfig, *, say: Callable[[str], None] = _LOG.info) -> None:
        self._spark = spark
        self._config = config
        self._say = say
        self._table = create_table(config.table, config.table_format)
        self._checkpoint = TableFolder(config.checkpoint_location)
        self._app_id = application_of(self._checkpoint, self._table)
        self._status = Status(config, self._table.identity())
        self._in_batch = threading.Lock()
        self._failure: BaseException | None = None
        self._batches = 0
        self._vacuumed_at = time.monotonic()

    def run(self, *, once: bool = False, stopping: Callable[[], bool] = lambda: False) -> None:
        """Archive until there is nothing more, if ``once``; else until ``stopping`` says so. The batch that runs then is finished."""
        query = self._start(once)
        self._status.say("running")
        try:
            while not query.awaitTermination(_LOOK_EVERY_S):
                if stopping():
                    with self._in_batch:
                        query.stop()
        except PySparkException as error:
            failure = self._failure or error
            self._status.say("failed", error=str(failure).splitlines()[0])
            if isinstance(failure, LiteMQError):
                raise failure from None
            raise PipelineError(f"the archive's stream failed: {failure}") from error
        except BaseException as error:
            self._status.say("failed", error=repr(error))
            raise
        self._status.say("stopped")

    def _start(self, once: bool) -> StreamingQuery:
        spans = spans_stream(self._spark, self._config)
        writer = spans.writeStream.foreachBatch(self._archive_batch).option("checkpointLocation", self._checkpoint.as_uri())
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._config.trigger_ms} milliseconds").start()

    # A batch ---------------------------------------------------------------------------------------------------------------------

    def _archive_batch(self, spans: DataFrame, batch_id: int) -> None:
        with self._in_batch:
            try:
                self._archive(read_spans(spans), batch_id)
            except BaseException as error:
                self._failure = error
                raise

    def _archive(self, spans: list[QueueSpan], batch_id: int) -> None:
        begun = time.monotonic()
        self._table.refresh()
        last = self._table.last_batch(self._app_id)
        if last is not None and last >= batch_id:
            _LOG.info("batch %d is in the table already", batch_id)
            self._report(spans)
            return
        done = self._write(spans)
        files = [file for one in done for file in one.files]
        self._parsing.parse(files, batch_id)
        self._table.append(files, self._app_id, batch_id)
        self._report(spans)
        lost = [loss for one in done for loss in one.losses]
        for loss in lost:
            _LOG.warning("%s: offsets %d … %d are not archived: %s", loss.span, loss.span.begin, loss.span.end - 1, loss.why)
        line = self._status.batch(
            batch_id,
            rows=_sums(one.rows for one in done),
            read_bytes=_sums(one.read_bytes for one in done),
            files=len(files),
            lost=sum(loss.span.end - loss.span.begin for loss in lost),
            seconds=time.monotonic() - begun,
            lag=self._lag(spans),
        )
        self._say(line)
        self._keep_up()

    def _write(self, spans: list[QueueSpan]) -> list[Written]:
        context = self._spark.sparkContext
        tasks = plan_tasks(spans, self._status.facts["row_bytes"], self._config.task_bytes, context.defaultParallelism)
        if not tasks:
            return []
        codec = Codec.of(self._config.codec, self._config.codec_level)
        writing = BatchWriting(self._config.url, self._table.folder, codec, self._config.fail_on_data_loss)
        written: list[Written] = context.parallelize(tasks, len(tasks)).map(writing).collect()
        return written
