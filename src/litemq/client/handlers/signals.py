"""Handlers for SIGINT and SIGTERM while a worker runs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["on_signals"]

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at each signal.

    On threads other than the main one, do nothing: they get no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        with _os_signals(stop):
            yield
        return
    taken = []
    for number in _STOPPING:
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _os_signals(stop: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda _number, _frame: stop()) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
