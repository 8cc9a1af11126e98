"""Sink ``litemq`` for ``df.write`` and ``df.writeStream``: writes each row exactly once.

Tasks write halves, which are not delivered. When all tasks have ended, the driver commits the
winning attempts (``commit.py``); the halves of failed or duplicated tasks are never delivered. A
stream's batches are identified by the query id in its checkpoint, so a batch that was decided
before its driver died is not written again.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.proto.wire_pb2 import Attempt, Winner
from litemq.spark.brokers import BlockingCluster, check_topic
from litemq.spark.fetch import thread_cluster
from litemq.spark.write.commit import abort, commit, decided_plans
from litemq.spark.write.options import WriteOptions, check_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchSink", "HalvesWritten", "StreamSink", "WritableSource"]

_LOG = logging.getLogger(__name__)
_COMMIT_TIMEOUT_S: Final = 300.0  # for retries of a decision while a broker does not answer
_ABORT_TIMEOUT_S: Final = 5.0
_ONLY_BATCH: Final = 0


@dataclass(frozen=True)
class HalvesWritten(WriterCommitMessage):
    """The result of a task for the driver."""

    query: str
    partition: int
    attempt: int
    counts: tuple[tuple[str, int], ...]  # broker, number of records
    decided: bool = False  # the batch was already decided, so this task wrote nothing


class _Sink:
    """The common part of the batch and stream sinks."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def _scope(self, cluster: BlockingCluster) -> list[str]:
        """Return the brokers that rows may go to."""
        states = cluster.brokers()
        if self._options.topic:
            from litemq.spark.write.task_writer import topic_route  # slow to import, and not needed for reading

            return [address.name for address in topic_route(self._options.topic, states).brokers]
        return [state.facts.name for state in states]

    def _write(
        self, batches: Iterator[pa.RecordBatch], query: str, batch: int, *, may_be_decided: bool
    ) -> HalvesWritten:
        context = TaskContext.get()
        if context is None:
            raise InvalidArgumentError("rows can only be written inside a Spark task")
        # Attempts of a task must differ, even if Spark runs two with the same attempt number.
        attempt = (context.attemptNumber() & 0xFFFF) << 47 | secrets.randbits(47)
        cluster = thread_cluster(self._options.url)
        attempt_id = Attempt(query=query, batch=batch, partition=context.partitionId(), attempt=attempt)
        if may_be_decided and decided_plans(cluster.ask, self._deciding_brokers(cluster), query, batch) is not None:
            return HalvesWritten(query, attempt_id.partition, attempt, (), decided=True)
        from litemq.spark.write.task_writer import write_rows

        counts = write_rows(batches, self._options.topic, attempt_id, cluster)
        return HalvesWritten(query, attempt_id.partition, attempt, tuple(counts.items()))

    def _deciding_brokers(self, cluster: BlockingCluster) -> list[str]:
        return self._scope(cluster)

    def _commit(self, messages: Iterable[WriterCommitMessage | None], query: str, batch: int) -> None:
        written = [message for message in messages if isinstance(message, HalvesWritten)]
        shares: dict[str, list[Winner]] = {}
        for message in written:
            for broker, count in message.counts:
                shares.setdefault(broker, []).append(
                    Winner(partition=message.partition, attempt=message.attempt, count=count)
                )
        decided = any(message.decided for message in written)
        if not shares and not decided:
            return
        cluster = BlockingCluster(self._options.url, retry_timeout_s=_COMMIT_TIMEOUT_S)
        try:
            commit(cluster.ask, sorted({*self._scope(cluster), *shares}), query, batch, shares, decided=decided)
        finally:
            cluster.close()

    def _abort(self, query: str, batch: int) -> None:
        cluster = BlockingCluster(self._options.url, retry_timeout_s=_ABORT_TIMEOUT_S)
        try:
            abort(cluster.ask, self._scope(cluster), query, batch)
        except LiteMQError as error:
            _LOG.warning("could not roll back batch %s of %s; its halves expire later: %s", batch, query, error)
        finally:
            cluster.close()


class BatchSink(_Sink, DataSourceArrowWriter):
    """The sink of one batch job, identified by ``jobId`` or a random id."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self._query = f"job:{options.job}" if options.job else f"job:{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> HalvesWritten:
        """Write a task's rows as halves; Spark calls it in the task."""
        return self._write(iterator, self._query, _ONLY_BATCH, may_be_decided=bool(self._options.job))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the batch; Spark calls it in the driver after all tasks have succeeded."""
        self._commit(messages, self._query, _ONLY_BATCH)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  it lacks those of killed tasks
        """Roll back the batch; Spark calls it in the driver after a failure."""
        self._abort(self._query, _ONLY_BATCH)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """The sink of a streaming query.

    Its id comes from its checkpoint, and only the tasks know it.
    """

    def write(self, iterator: Iterator[pa.RecordBatch]) -> HalvesWritten:
        """Write a task's rows as halves; Spark calls it in the task."""
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if not query or batch is None:
            raise InvalidArgumentError(
                "rows of a stream can only be written by its tasks: Spark did not provide the query and batch"
            )
        return self._write(iterator, query, int(batch), may_be_decided=True)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark calls it by name
        """Commit the batch; Spark calls it in the driver after all tasks have succeeded."""
        query = _query_id(messages)
        if query:
            self._commit(messages, query, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Roll back the batch; Spark calls it in the driver after a failure.

        If no task has ended, the query id is unknown, and the next batch rolls the halves back.
        """
        query = _query_id(messages)
        if query:
            self._abort(query, batchId)


def _query_id(messages: Iterable[WriterCommitMessage | None]) -> str:
    return next((message.query for message in messages if isinstance(message, HalvesWritten)), "")


class WritableSource(DataSource):
    """The write side of the data source."""

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """Return the sink for ``df.write``."""
        return BatchSink(_checked(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802  Spark's name
        """Return the sink for ``df.writeStream``."""
        options = _checked(self.options, schema, overwrite=overwrite)
        if options.job:
            raise InvalidArgumentError("jobId is for batch jobs only: a stream is identified by its checkpoint")
        return StreamSink(options)


def _checked(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> WriteOptions:
    parsed = WriteOptions.parse(options)
    if overwrite:
        raise InvalidArgumentError('topics are append-only: use .mode("append"), or .outputMode("append") for a stream')
    check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, has_topic=bool(parsed.topic))
    if parsed.topic:
        check_topic(parsed.topic, thread_cluster(parsed.url).topics())  # before any task starts
    return parsed
