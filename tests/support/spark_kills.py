"""Kills of Spark drivers: at fail points, or of processes at some moment."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Final, NamedTuple

from support.spark_processes import EndedError, SparkDriver

__all__ = ["ARCHIVE_KILLS", "COPY_KILLS", "Kill", "finish", "first"]

# A slow minute of a shared machine is no failure.
WITHIN: Final = 900.0
_TRIES: Final = 3
_MOMENTS: Final = 2.0  # after a batch, when nothing says otherwise

_DELTA: Final = "litemq.spark.tables.delta_rs:DeltaRsTable"


class Kill(NamedTuple):
    """One kill: at a fail point, or of one kind of process at some moment.

    Without ``point`` and ``kind``, it kills the driver and all its processes at some moment.
    """

    what: str
    point: str = ""
    kind: str = ""

    def environment(self, folder: Path, number: int) -> dict[str, str]:
        """Return the environment for the driver."""
        return (
            {"LITEMQ_TEST_KILL": self.point, "LITEMQ_TEST_KILL_COUNT": str(folder / f"reached-{number}")}
            if self.point
            else {}
        )

    def happen(self, start: Callable[[], SparkDriver], is_at_work: Callable[[SparkDriver], None]) -> None:
        """Start a driver, wait with ``is_at_work`` until it processes data, kill, and clean up.

        If a driver ends by itself, start another one: Spark's drivers end if a busy machine does
        not start their workers in time.
        """
        for _ in range(_TRIES):
            with start() as driver:
                try:
                    self._disturb(driver, is_at_work)
                except EndedError as error:
                    ended = error
                else:
                    return
        raise ended

    def _disturb(self, driver: SparkDriver, is_at_work: Callable[[SparkDriver], None]) -> None:
        if self.point:
            with suppress(EndedError):  # it may be there already
                is_at_work(driver)
            if driver.wait(WITHIN) != -signal.SIGKILL:
                raise EndedError(f"{self.what}: it ended by itself: {driver.tail()}")
            return
        is_at_work(driver)
        time.sleep(random.uniform(0, _MOMENTS))
        if self.kind:
            if not driver.kill_one(self.kind):
                raise EndedError(f"nothing to kill of the kind {self.kind}: {driver.tail()}")
            time.sleep(random.uniform(0, _MOMENTS))  # what is left goes on, or not


# The first ones are what CI does.
ARCHIVE_KILLS: Final = (
    Kill("between the table's commit and Spark's", point=f"{_DELTA}.append!@2"),
    Kill("while files are joined, before the commit", point=f"{_DELTA}.replace@1"),
    Kill("a Python worker", kind="worker"),
    Kill("everything at once"),
    Kill("before the table's commit", point=f"{_DELTA}.append@3"),
    Kill("when joined files are committed", point=f"{_DELTA}.replace!@1"),
    Kill("Java alone", kind="jvm"),
    Kill("in a task that has merged files", point="litemq.spark.pipelines.compaction:GroupMerger.__call__!@1"),
    Kill("the driver's Python alone", kind="python"),
    Kill("when a task has written its files", point="litemq.spark.pipelines.tasks:BatchWriter.__call__!@2"),
)
COPY_KILLS: Final = (
    Kill("between the brokers' decision and Spark's", point="after-commit@2"),
    Kill("everything at once"),
    Kill("when all tasks have written", point="before-commit@2"),
    Kill("a Python worker", kind="worker"),
    Kill("Java alone", kind="jvm"),
    Kill("the driver's Python alone", kind="python"),
)


def first(count: int, kills: tuple[Kill, ...]) -> list[Kill]:
    """Return the first ``count`` kills, repeated if there are fewer."""
    return list(islice(cycle(kills), count))


def finish(start: Callable[[], SparkDriver]) -> None:
    """Start a driver that ends by itself when all is done, with nothing in its way."""
    for _ in range(_TRIES):
        with start() as driver:
            if driver.wait(WITHIN) == 0:
                return
    raise EndedError(driver.tail())
