"""A batch's spans, dealt out to tasks, and what one task does: fetch, decode, write files.

Only names, sizes and statistics of files go back to the driver. A task that is tried again, or twice at the same time, writes other files:
which of them count is what Spark says, and the table's commit.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import pyarrow as pa

from litemq.spark.fetch import Loss, QueueSpan, decode, thread_cluster
from litemq.spark.read.planning import pack_tasks
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import FILE_SCHEMA, TableFile
from litemq.spark.tables.writing import Codec, MessageWriter

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["BatchWriter", "SpanRows", "Written", "plan_tasks", "run_tasks"]

T = TypeVar("T")
R = TypeVar("R")
_MIN_TASK_BYTES: Final = 64 << 20


class Written(NamedTuple):
    """The files that a task wrote, and the messages that were lost."""

    files: list[TableFile]
    rows: int
    read_bytes: int
    losses: list[Loss]


def plan_tasks(spans: Sequence[QueueSpan], row_bytes: Callable[[str], float], task_bytes: int, cores: int) -> list[list[QueueSpan]]:
    """Deal spans out to tasks of about the same size; the spans of a task are in the order of their keys."""
    total = sum((span.end - span.begin) * row_bytes(span.topic) for span in spans if span.end > span.begin)
    count = max(1, round(total / task_bytes))
    even = -(-count // cores) * cores  # the last round has work for all cores
    min_tasks = even if total / even >= _MIN_TASK_BYTES else None
    return [sorted(task) for task in pack_tasks(spans, row_bytes, min_tasks=min_tasks, partition_bytes=task_bytes)]


def run_tasks(context: SparkContext, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """Do some work on Spark, a task for each piece; what comes back is small."""
    done: list[R] = context.parallelize(tasks, len(tasks)).map(work).collect()
    return done


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Writes the spans of a batch to files; each task calls it with its spans."""

    url: str
    folder: TableFolder
    codec: Codec
    fail_on_data_loss: bool

    def __call__(self, spans: Sequence[QueueSpan]) -> Written:
        _freeze_heap()
        writer = MessageWriter(self.folder, self.codec)
        rows = read_bytes = 0
        losses: list[Loss] = []
        try:
            for span in spans:
                for chunk in thread_cluster(self.url).fetch(span, losses=None if self.fail_on_data_loss else losses):
                    read_bytes += len(chunk)
                    for batch in decode(chunk, FILE_SCHEMA.names, span.broker):
                        rows += batch.num_rows
                        writer.write(span.topic, batch.cast(FILE_SCHEMA) if batch.schema != FILE_SCHEMA else batch)
            return Written(writer.finish(), rows, read_bytes, losses)
        except BaseException:
            writer.discard()
            raise


class SpanRows(NamedTuple):
    """The rows of spans, for Spark to go on with: a function for ``mapInArrow``, whose rows are pickled tasks."""

    url: str

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _freeze_heap()
        for batch in batches:
            for task in batch["task"].to_pylist():
                for span in pickle.loads(task):  # noqa: S301 (our own driver's)
                    for chunk in thread_cluster(self.url).fetch(span):
                        yield from decode(chunk, MESSAGE_SCHEMA.names, span.broker)


@cache
def _freeze_heap() -> None:
    """Exclude loaded modules from garbage collection, which would scan them again in each of many short tasks."""
    gc.collect()
    gc.freeze()
