"""A batch's spans, dealt out to tasks, and what one task does: fetch, decode, write files.

Only names, sizes and statistics of files go back to the driver. A task that is tried again, or twice at the same time, writes other files:
which of them count is what Spark says, and the table's commit.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa

from litemq.spark.fetch import Loss, QueueSpan, decode, links_to
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import FILE_SCHEMA, TableFile
from litemq.spark.tables.writing import Codec, MessageWriter

__all__ = ["BatchWriting", "Written", "plan_tasks", "span_rows"]

# What a message is thought to weigh as long as none of its topic was seen.
_UNSEEN_BYTES: Final = 1024.0
_LEAST_TASK_BYTES: Final = 64 << 20


class Written(NamedTuple):
    """What a task did."""

    files: list[TableFile]
    rows: dict[str, int]  # by topic
    read_bytes: dict[str, int]
    losses: list[Loss]


def plan_tasks(spans: Iterable[QueueSpan], row_bytes: Mapping[str, float], task_bytes: int, cores: int) -> list[list[QueueSpan]]:
    """Deal spans out to tasks of about the same size, in the order of their keys, so that few tasks write to the same hour of a topic."""
    ordered = sorted(span for span in spans if span.end > span.begin)
    weights = [row_bytes.get(span.topic, _UNSEEN_BYTES) for span in ordered]
    total = sum((span.end - span.begin) * weight for span, weight in zip(ordered, weights, strict=True))
    if not ordered:
        return []
    count = max(1, round(total / task_bytes))
    if count % cores and total / (count + cores - count % cores) >= _LEAST_TASK_BYTES:
        count += cores - count % cores  # the last round has work for all cores
    share = total / count
    tasks: list[list[QueueSpan]] = [[]]
    left = share
    for span, weight in zip(ordered, weights, strict=True):
        begin = span.begin
        while begin < span.end:
            if left < weight / 2 and len(tasks) < count:
                tasks.append([])
                left += share
            taken = span.end - begin if len(tasks) == count else min(span.end - begin, max(1, round(left / weight)))
            tasks[-1].append(span._replace(begin=begin, end=begin + taken))
            begin += taken
            left -= taken * weight
    return tasks


class BatchWriting(NamedTuple):
    """How the tasks of a batch write; called with one task's spans, where it runs."""

    url: str
    folder: TableFolder
    codec: Codec
    fail_on_data_loss: bool

    def __call__(self, spans: Sequence[QueueSpan]) -> Written:
        _settle_down()
        writer = MessageWriter(self.folder, self.codec)
        rows: dict[str, int] = {}
        read_bytes: dict[str, int] = {}
        losses: list[Loss] = []
        try:
            for span in spans:
                for chunk in links_to(self.url).fetch(span, losses=None if self.fail_on_data_loss else losses):
                    read_bytes[span.topic] = read_bytes.get(span.topic, 0) + len(chunk)
                    for batch in decode(chunk, FILE_SCHEMA.names, span.broker):
                        rows[span.topic] = rows.get(span.topic, 0) + batch.num_rows
                        writer.write(span.topic, batch.cast(FILE_SCHEMA) if batch.schema != FILE_SCHEMA else batch)
            return Written(writer.finish(), rows, read_bytes, losses)
        except BaseException:
            writer.discard()
            raise


def span_rows(url: str, spans: Sequence[QueueSpan], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of spans, for Spark to go on with."""
    _settle_down()
    for span in spans:
        for chunk in links_to(url).fetch(span):
            yield from decode(chunk, schema.names, span.broker)


@cache
def _settle_down() -> None:
    """What was loaded stays: the collector need not look at it again in each of many short tasks."""
    gc.collect()
    gc.freeze()
