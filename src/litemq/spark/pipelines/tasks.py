"""Tasks of the archive. They share the spans of a batch, and fetch, decode and write files.

Only names, sizes and statistics of files return to the driver. A retried or duplicated task writes
other files; the table's commit names the files that count.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import pyarrow as pa

from litemq.client.config import ReadFrom
from litemq.spark.fetch import Loss, QueueSpan, decode, thread_cluster
from litemq.spark.read.planning import pack_tasks
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import FILE_SCHEMA, TableFile
from litemq.spark.tables.writing import Codec, MessageWriter

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["BatchWriter", "SpanRows", "TaskResult", "plan_tasks", "run_tasks"]

T = TypeVar("T")
R = TypeVar("R")
_MIN_TASK_BYTES: Final = 64 << 20


class TaskResult(NamedTuple):
    """The files that a task wrote, and the messages that were lost."""

    files: list[TableFile]
    rows: int
    read_bytes: int
    losses: list[Loss]


def plan_tasks(
    spans: Sequence[QueueSpan], row_bytes: Callable[[str], float], task_bytes: int, cores: int
) -> list[list[QueueSpan]]:
    """Divide ``spans`` into tasks of about ``task_bytes``; a task's spans are sorted by key."""
    total = sum((span.end - span.begin) * row_bytes(span.topic) for span in spans if span.end > span.begin)
    count = max(1, round(total / task_bytes))
    even = -(-count // cores) * cores  # so that the last round uses all cores
    min_tasks = even if total / even >= _MIN_TASK_BYTES else None
    return [sorted(task) for task in pack_tasks(spans, row_bytes, min_tasks=min_tasks, partition_bytes=task_bytes)]


def run_tasks(context: SparkContext, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """Run ``work`` on Spark, one task per item of ``tasks``. The results must be small."""
    done: list[R] = context.parallelize(tasks, len(tasks)).map(work).collect()
    return done


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """A function that writes a task's spans of a batch to files."""

    url: str
    folder: TableFolder
    codec: Codec
    fail_on_data_loss: bool
    read_from: ReadFrom

    def __call__(self, spans: Sequence[QueueSpan]) -> TaskResult:
        _freeze_heap()
        writer = MessageWriter(self.folder, self.codec)
        rows = read_bytes = 0
        losses: list[Loss] = []
        try:
            for span in spans:
                lost = None if self.fail_on_data_loss else losses
                for chunk in thread_cluster(self.url).fetch(span, losses=lost, read_from=self.read_from):
                    read_bytes += len(chunk)
                    for batch in decode(chunk, FILE_SCHEMA.names, span.broker):
                        rows += batch.num_rows
                        writer.write(span.topic, batch.cast(FILE_SCHEMA) if batch.schema != FILE_SCHEMA else batch)
            return TaskResult(writer.finish(), rows, read_bytes, losses)
        except BaseException:
            writer.discard()
            raise


class SpanRows(NamedTuple):
    """Rows of pickled tasks: ``read`` is a function for ``mapInArrow``."""

    url: str
    read_from: ReadFrom

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _freeze_heap()
        for batch in batches:
            for task in batch["task"].to_pylist():
                for span in pickle.loads(task):  # noqa: S301 (our own driver's)
                    for chunk in thread_cluster(self.url).fetch(span, read_from=self.read_from):
                        yield from decode(chunk, MESSAGE_SCHEMA.names, span.broker)


@cache
def _freeze_heap() -> None:
    """Exclude loaded modules from garbage collection, since tasks are short."""
    gc.collect()
    gc.freeze()
