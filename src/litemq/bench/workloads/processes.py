"""Load that does not stand in the way of whoever measures: each client in a process of its own, as users have them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from litemq.bench.workloads.load import LoadResult, measure_latency
from litemq.net.event_loop import run

__all__ = ["flow", "processes"]


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Start ``count`` processes that have imported this module."""
    with ProcessPoolExecutor(count, get_context("spawn"), _die_at_once) as pool:
        wait([pool.submit(_begin) for _ in range(count)])
        yield pool


def _die_at_once() -> None:
    """At Ctrl-C, and without a word: whoever started them says what there is to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _begin() -> None:
    """There is nothing to do."""


def flow(url: str, **options: Any) -> LoadResult:
    """``measure_latency``, for a process of its own."""
    return run(measure_latency(url, **options))
