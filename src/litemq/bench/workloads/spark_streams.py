"""Durations of micro-batches: of the ``litemq`` source, and of Spark's ``rate`` source."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession

from litemq import Client
from litemq.errors import LiteMQError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MicroBatches"]

_PER_SECOND: Final = 100
_WARM_UP: Final = 5  # batches that are not counted
_AT_MOST_S: Final = 300.0
_TOPIC: Final = "ticks"


class MicroBatches:
    """Streams of small batches to Spark's ``noop`` sink."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, *, seconds: float) -> None:
        self._spark = spark
        self._url = url
        self._folder = folder
        self._seconds = seconds
        self._medians: dict[str, float] = {}
        with Client(url) as mq:
            mq.admin.create_topic(_TOPIC, queues=2)

    def rate_source_ms(self) -> float:
        return self._run("rate", self._spark.readStream.format("rate").option("rowsPerSecond", _PER_SECOND).load())

    def litemq_ms(self) -> float:
        stream = (
            self._spark.readStream.format("litemq")
            .options(url=self._url, subscribe=_TOPIC, startingOffsets="latest")
            .load()
        )
        with _sending(self._url):
            return self._run("litemq", stream)

    def ratio(self) -> float:
        """Return the ratio of the last two measurements."""
        return self._medians["litemq"] / self._medians["rate"]

    def _run(self, name: str, stream: DataFrame) -> float:
        checkpoint = self._folder / f"stream-{name}"
        query = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        try:
            spent: dict[int, float] = {}  # by batch
            begin = time.monotonic()
            # On a busy machine, a stream starts late and needs longer for enough batches.
            while (took := time.monotonic() - begin) < self._seconds or (
                len(spent) < 2 * _WARM_UP and took < _AT_MOST_S
            ):
                query.awaitTermination(1)
                spent |= {
                    one.batchId: one.durationMs["triggerExecution"]
                    for one in query.recentProgress
                    if one.numInputRows > 0
                }
        finally:
            query.stop()
            shutil.rmtree(checkpoint)
        counted = [spent[batch] for batch in sorted(spent)[_WARM_UP:]]
        if not counted:
            raise LiteMQError(
                f"the stream of {name} had only {len(spent)} batches in {_AT_MOST_S:g} s: the machine is too busy"
            )
        self._medians[name] = float(median(counted))
        return self._medians[name]


@contextmanager
def _sending(url: str) -> Iterator[None]:
    """Send as many messages per second as the rate source generates."""
    done = threading.Event()

    def send() -> None:
        with Client(url) as mq:
            while not done.wait(1 / _PER_SECOND):
                mq.send(_TOPIC, b"tick")

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        done.set()
        sender.join()
