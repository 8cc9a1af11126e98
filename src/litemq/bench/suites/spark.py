"""``litemq bench suite spark``: Spark on messages, compared with Spark on the same rows in Parquet.

Spark, its Python workers and the broker all run on this machine. Rates are in rows per second;
ratios are between rates of the same run. Data is in the temporary directory (``TMPDIR``). At scale
1 the suite needs 50 GB and most of an hour, mainly for the figure ``growth``.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from litemq import Client
from litemq.bench.baselines.struct_loop import StructLoopSource
from litemq.bench.clusters import running_broker_on
from litemq.bench.suite import Figure, Goal, at_least, at_most
from litemq.bench.workloads.spark_data import Rows, as_parquet, fill_topic, open_log
from litemq.bench.workloads.spark_streams import MicroBatches
from litemq.errors import LiteMQError
from litemq.spark.pipelines.archive import Archive
from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.spark.session import new_session

__all__ = ["figures"]

_GB: Final = 1_000_000_000
_GROWTH: Final = (1, 4, 16)
_ZSTD_LEVEL: Final = 1
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_NOT_THE_BODY: Final = ",".join(name for name in MESSAGE_SCHEMA.names if name != "body")
_WRITTEN: Final = "written"
_COPIED_WITHIN_S: Final = 300.0


def figures(scale: float) -> list[Figure]:
    """Return the figures of the Spark integration with their goals."""
    bench = _Bench(scale)
    large, small = bench.large, bench.small
    return [
        *_reading(bench, large, "1k", goals=True),
        *_reading(bench, small, "300", goals=False),
        bench.rate(
            "broker_1k",
            "litemq from a running broker, all columns",
            lambda: bench.read(bench.topic(large), large.messages),
        ),
        bench.ratio("broker_over_log", "the same / litemq-log", "broker_1k", "log_1k", at_least(0.5)),
        bench.rate("copy_1k", "bare Spark, Parquet to Parquet, zstd", lambda: bench.copy(large)),
        bench.rate("archive_1k", "archive, stream to Delta, zstd of the same level", lambda: bench.archive(large)),
        bench.ratio("archive_over_copy", "the same / copy_1k", "archive_1k", "copy_1k", at_least(1.0)),
        Figure("rate_batch", "median micro-batch of Spark's own rate source", "ms", bench.streams.rate_source_ms),
        Figure("batch", "median micro-batch of the litemq source", "ms", bench.streams.litemq_ms),
        Figure("batch_over_rate", "the same / rate source", "×", bench.streams.ratio, at_most(1.5)),
        bench.rate(
            "write_1k", "Spark to LiteMQ, rows of 1 KiB, exactly once", lambda: bench.write(large), at_least(100_000)
        ),
        Figure(
            "growth",
            "archive's time per GB at 1, 4 and 16 GB (at scale 1), slowest / fastest",
            "×",
            bench.growth,
            at_most(1.15),
        ),
    ]


def _reading(bench: _Bench, rows: Rows, size: str, *, goals: bool) -> list[Figure]:
    def goal(bound: float) -> Goal | None:
        return at_least(bound) if goals else None

    parquet, log, bare, loop = f"parquet_{size}", f"log_{size}", f"log_without_body_{size}", f"struct_loop_{size}"
    return [
        bench.rate(
            parquet,
            "bare Spark, uncompressed Parquet, all columns",
            lambda: bench.read(bench.parquet(rows), rows.messages),
        ),
        bench.rate(log, "litemq-log, all columns", lambda: bench.read(bench.log(rows), rows.messages)),
        bench.ratio(f"{log}_over_parquet", "the same / Parquet", log, parquet, goal(0.7)),
        bench.rate(
            bare,
            "litemq-log, all columns but the body",
            lambda: bench.read(bench.log(rows, columns=_NOT_THE_BODY), rows.messages),
        ),
        bench.ratio(f"{bare}_over_parquet", "the same / Parquet with the body", bare, parquet, goal(1.5)),
        bench.rate(loop, "a source that loops over records with struct", lambda: bench.struct_loop(rows)),
        bench.ratio(f"{log}_over_struct_loop", "litemq-log / the same", log, loop, goal(2.5)),
    ]


class _Bench:
    """The data, the cluster and the session that all figures share."""

    def __init__(self, scale: float) -> None:
        self._stack = ExitStack()
        atexit.register(self._stack.close)
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="litemq-bench-")))
        self._data = self._folder / "data"
        self._rates: dict[str, float] = {}
        self.large = Rows("rows-1k", max(4_000, int(2_000_000 * scale)), 1024)
        self.small = Rows("rows-300", max(4_000, int(4_000_000 * scale)), 300)
        self._grown = [
            Rows(f"grown-{factor}", max(2_000, int(factor * _GB * scale) // 1024), 1024) for factor in _GROWTH
        ]
        for rows in (self.large, self.small):
            self._fill(self._log_path(rows), rows)
        self._fill(self._data, self.large, *self._grown)
        self._url = self._stack.enter_context(running_broker_on(self._data))
        self._spark = self._new_session()
        for rows in (self.large, self.small):
            as_parquet(self._spark, self._log_path(rows), self._parquet_path(rows))
        self.streams = MicroBatches(self._spark, self._url, self._folder, seconds=max(2.0, 20.0 * min(1.0, scale)))

    def _fill(self, directory: Path, *topics: Rows) -> None:
        store = open_log(directory)
        for rows in topics:
            fill_topic(store, rows)
        store.create_topic(_WRITTEN, 4)
        store.close()

    def _new_session(self) -> SparkSession:
        settings = {
            **_SETTINGS,
            "spark.local.dir": str(self._folder / "local"),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        spark = new_session("litemq bench", settings, master="local[*]")
        self._stack.callback(spark.stop)
        spark.dataSource.register(StructLoopSource)
        return spark

    # Figures --------------------------------------------------------------------------------------

    def rate(self, name: str, what: str, measure: Callable[[], float], goal: Goal | None = None) -> Figure:
        def once() -> float:
            self._rates[name] = measure()
            return self._rates[name]

        return Figure(name, what, "row/s", once, goal)

    def ratio(self, name: str, what: str, one: str, other: str, goal: Goal | None) -> Figure:
        """Return the ratio of two rates measured before in the same run."""
        return Figure(name, what, "×", lambda: self._rates[one] / self._rates[other], goal)

    # Reading --------------------------------------------------------------------------------------

    def _log_path(self, rows: Rows) -> Path:
        """Return the path of a log with only these rows: readers scan a whole log."""
        return self._folder / f"{rows.topic}.log"

    def _parquet_path(self, rows: Rows) -> Path:
        return self._folder / f"{rows.topic}.parquet"

    def parquet(self, rows: Rows) -> DataFrame:
        return self._spark.read.parquet(str(self._parquet_path(rows)))

    def log(self, rows: Rows, **options: str) -> DataFrame:
        return (
            self._spark.read.format("litemq-log").options(topic=rows.topic, **options).load(str(self._log_path(rows)))
        )

    def topic(self, rows: Rows) -> DataFrame:
        return self._spark.read.format("litemq").options(url=self._url, subscribe=rows.topic).load()

    def read(self, frame: DataFrame, count: int) -> float:
        begin = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return count / (time.perf_counter() - begin)

    def struct_loop(self, rows: Rows) -> float:
        """Measure the baseline over the first parts of the log only, since it is slow."""
        frame = self._spark.read.format("litemq-struct-loop").options(
            topic=rows.topic, parts="2", maxPartitionBytes="32m"
        )
        begin = time.perf_counter()
        read = frame.load(str(self._log_path(rows))).count()
        return read / (time.perf_counter() - begin)

    # Writing --------------------------------------------------------------------------------------

    def _in_new_folder(self, write: Callable[[Path], None]) -> float:
        folder = self._folder / "out"
        try:
            begin = time.perf_counter()
            write(folder)
            return time.perf_counter() - begin
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def copy(self, rows: Rows) -> float:
        def write(folder: Path) -> None:
            frame = (
                self.parquet(rows)
                .write.option("compression", "zstd")
                .option("parquet.compression.codec.zstd.level", _ZSTD_LEVEL)
            )
            frame.parquet(str(folder))

        return rows.messages / self._in_new_folder(write)

    def _archive(self, topic: str) -> float:
        def write(folder: Path) -> None:
            config = ArchiveConfig(
                url=self._url,
                topics=(topic,),
                table=str(folder / "table"),
                checkpoint=str(folder / "checkpoint"),
                codec_level=_ZSTD_LEVEL,
                compact_every_batches=0,
            )
            Archive(self._spark, config).run(once=True)

        return self._in_new_folder(write)

    def archive(self, rows: Rows) -> float:
        return rows.messages / self._archive(rows.topic)

    def growth(self) -> float:
        per_row = [self._archive(rows.topic) / rows.messages for rows in self._grown]
        return max(per_row) / min(per_row)

    def write(self, rows: Rows) -> float:
        """Measure the sink with a quarter of the rows, since the broker keeps what was written."""
        frame = self.parquet(rows).where("queue_id = 0").select("body", "keys")
        messages = frame.count()
        with Client(self._url) as mq:
            before = _entries(mq, _WRITTEN)
            begin = time.perf_counter()
            frame.write.format("litemq").options(url=self._url, topic=_WRITTEN).mode("append").save()
            took = time.perf_counter() - begin
            _wait_for_entries(
                mq, _WRITTEN, before + messages
            )  # so that copying in the broker does not slow the next figure
        return messages / took


def _entries(mq: Client, topic: str) -> int:
    return sum(queue.next for queue in mq.admin.describe_topic(topic).queues)


def _wait_for_entries(mq: Client, topic: str, count: int) -> None:
    until = time.monotonic() + _COPIED_WITHIN_S
    while _entries(mq, topic) < count:
        if time.monotonic() > until:
            raise LiteMQError(f"messages are missing {_COPIED_WITHIN_S:g} s after their commit")
        time.sleep(0.1)
