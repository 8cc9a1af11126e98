"""Writing from Spark: ``df.write.format("litemq")`` and ``df.writeStream.format("litemq")``, each row once.

Tasks write halves, which nobody sees; when all have ended, the driver says which attempts count (``commit.py``). A task that fails, runs
twice or is left behind has written halves that never count. A stream's batches are known by the query's id, which its checkpoint keeps: a batch
that was decided before its driver died is not written again.
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
_COMMIT_TIMEOUT_S: Final = 300.0  # retries of a decision, while a broker does not answer
_ABORT_TIMEOUT_S: Final = 5.0
_ONLY_BATCH: Final = 0


@dataclass(frozen=True)
class HalvesWritten(WriterCommitMessage):
    """The result of a task for the driver."""

    query: str
    partition: int
    attempt: int
    counts: tuple[tuple[str, int], ...]  # broker, and how many records it has
    decided: bool = False  # the batch was decided before, so that this task wrote nothing


class _Sink:
    """What batches and streams share: everything but where query and batch come from."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def _scope(self, cluster: BlockingCluster) -> list[str]:
        """The brokers that rows may go to."""
        states = cluster.brokers()
        if self._options.topic:
            from litemq.spark.write.task_writer import topic_route  # those who only read have no use for it, and it loads much

            return [place.name for place in topic_route(self._options.topic, states).brokers]
        return [state.facts.name for state in states]

    def _write(self, batches: Iterator[pa.RecordBatch], query: str, batch: int, *, may_be_decided: bool) -> HalvesWritten:
        context = TaskContext.get()
        if context is None:
            raise InvalidArgumentError("rows are written by Spark's tasks only")
        # Of a task that Spark runs twice, by number or behind its back, the tries must differ.
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
                shares.setdefault(broker, []).append(Winner(partition=message.partition, attempt=message.attempt, count=count))
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
            _LOG.warning("what was written of batch %s of %s stays until its broker sweeps it: %s", batch, query, error)
        finally:
            cluster.close()


class BatchSink(_Sink, DataSourceArrowWriter):
    """One batch job. Its query is its own, or what it calls itself."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self._query = f"job:{options.job}" if options.job else f"job:{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> HalvesWritten:
        """In a task."""
        return self._write(iterator, self._query, _ONLY_BATCH, may_be_decided=bool(self._options.job))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver, when all tasks have ended well."""
        self._commit(messages, self._query, _ONLY_BATCH)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  it lacks those of tasks that were cut off
        """In the driver, when one has not."""
        self._abort(self._query, _ONLY_BATCH)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """A streaming query. Its id comes from its checkpoint, and only its tasks know it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> HalvesWritten:
        """In a task."""
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if not query or batch is None:
            raise InvalidArgumentError("a stream's rows are written by its own tasks: Spark did not say which query and batch they are of")
        return self._write(iterator, query, int(batch), may_be_decided=True)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark calls it by name
        """In the driver, when all tasks have ended well."""
        query = _query_id(messages)
        if query:
            self._commit(messages, query, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver, when one has not. Where no task had ended, the query is not known, and its next batch sweeps."""
        query = _query_id(messages)
        if query:
            self._abort(query, batchId)


def _query_id(messages: Iterable[WriterCommitMessage | None]) -> str:
    return next((message.query for message in messages if isinstance(message, HalvesWritten)), "")


class WritableSource(DataSource):
    """The writing half of the data source."""

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """For ``df.write``."""
        return BatchSink(_checked(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802  Spark's word
        """For ``df.writeStream``."""
        options = _checked(self.options, schema, overwrite=overwrite)
        if options.job:
            raise InvalidArgumentError("jobId is for batch jobs: a stream is known by its checkpoint")
        return StreamSink(options)


def _checked(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> WriteOptions:
    parsed = WriteOptions.parse(options)
    if overwrite:
        raise InvalidArgumentError('a topic is only appended to: .mode("append"), or .outputMode("append") in a stream')
    check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, has_topic=bool(parsed.topic))
    if parsed.topic:
        check_topic(parsed.topic, thread_cluster(parsed.url).topics())  # before any task is started in vain
    return parsed
