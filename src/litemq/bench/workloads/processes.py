"""Processes for load that must not slow the measuring process."""

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
    with ProcessPoolExecutor(count, get_context("spawn"), _reset_sigint) as pool:
        wait([pool.submit(_begin) for _ in range(count)])
        yield pool


def _reset_sigint() -> None:
    """Let Ctrl-C end the process without a traceback; the parent reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _begin() -> None:
    """Do nothing: the first call starts a process."""


def flow(url: str, **options: Any) -> LoadResult:
    """Run ``measure_latency`` in another process."""
    return run(measure_latency(url, **options))
