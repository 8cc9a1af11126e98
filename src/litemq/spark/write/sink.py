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
from litemq.spark.brokers import Links, check_topic
from litemq.spark.fetch import links_to
from litemq.spark.write.commit import abort, commit, decided_plans
from litemq.spark.write.options import WriteOptions, check_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchSink", "HalvesWritten", "StreamSink", "WritableSource"]

_LOG = logging.getLogger(__name__)
_DECIDING_S: Final = 300.0  # a broker that is told a decision is waited for so long
_SWEEPING_S: Final = 5.0
_ONLY_BATCH: Final = 0


@dataclass(frozen=True)
class HalvesWritten(WriterCommitMessage):
    """What a task tells the driver."""

    query: str
    partition: int
    attempt: int
    counts: tuple[tuple[str, int], ...]  # broker, and how many records it has
    decided: bool = False  # the batch was decided before, so that this task wrote nothing


class _Sink:
    """What batches and streams share: everything but where query and batch come from."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def _scope(self, links: Links) -> list[str]:
        """The brokers that rows may go to."""
        states = links.brokers()
        if self._options.topic:
            from litemq.spark.write.task_writer import route_of  # those who only read have no use for it, and it loads much

            return [place.name for place in route_of(self._options.topic, states).brokers]
        return [state.facts.name for state in states]

    def _write(self, batches: Iterator[pa.RecordBatch], query: str, batch: int, *, may_be_decided: bool) -> HalvesWritten:
        context = TaskContext.get()
        if context is None:
            raise InvalidArgumentError("rows are written by Spark's tasks only")
        # Of a task that Spark runs twice, by number or behind its back, the tries must differ.
        attempt = (context.attemptNumber() & 0xFFFF) << 47 | secrets.randbits(47)
        links = links_to(self._options.url)
        said = Attempt(query=query, batch=batch, partition=context.partitionId(), attempt=attempt)
        if may_be_decided and decided_plans(links.ask, self._brokers_asked(links), query, batch) is not None:
            return HalvesWritten(query, said.partition, attempt, (), decided=True)
        from litemq.spark.write.task_writer import write_rows

        counts = write_rows(batches, self._options.topic, said, links)
        return HalvesWritten(query, said.partition, attempt, tuple(counts.items()))

    def _brokers_asked(self, links: Links) -> list[str]:
        return self._scope(links)

    def _commit(self, messages: Iterable[WriterCommitMessage | None], query: str, batch: int) -> None:
        written = [message for message in messages if isinstance(message, HalvesWritten)]
        shares: dict[str, list[Winner]] = {}
        for message in written:
            for broker, count in message.counts:
                shares.setdefault(broker, []).append(Winner(partition=message.partition, attempt=message.attempt, count=count))
        decided = any(message.decided for message in written)
        if not shares and not decided:
            return
        links = Links(self._options.url, patience_s=_DECIDING_S)
        try:
            commit(links.ask, sorted({*self._scope(links), *shares}), query, batch, shares, decided=decided)
        finally:
            links.close()

    def _abort(self, query: str, batch: int) -> None:
        links = Links(self._options.url, patience_s=_SWEEPING_S)
        try:
            abort(links.ask, self._scope(links), query, batch)
        except LiteMQError as error:
            _LOG.warning("what was written of batch %s of %s stays until its broker sweeps it: %s", batch, query, error)
        finally:
            links.close()


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
    """A streaming query. Its id comes from its checkpoint, and only its tasks are told."""

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
        query = _query_of(messages)
        if query:
            self._commit(messages, query, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver, when one has not. Where no task had ended, the query is not known, and its next batch sweeps."""
        query = _query_of(messages)
        if query:
            self._abort(query, batchId)


def _query_of(messages: Iterable[WriterCommitMessage | None]) -> str:
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
        check_topic(parsed.topic, links_to(parsed.url).topics())  # before any task is started in vain
    return parsed
