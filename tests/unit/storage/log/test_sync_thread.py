"""The thread that syncs the log: in C and in Python, it does the same."""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from litemq.storage.log.sync_thread import SyncThread
from support.waiting import HANG_S

_NEVER_S = 3600.0  # lingering that no test waits for

if TYPE_CHECKING:
    from litemq.storage.log._group_sync import GroupSync

    Thread: TypeAlias = GroupSync | SyncThread


class _Threads:
    """Makes threads of one kind, and knows whether the event loop was notified."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._notified = threading.Event()
        self._made: list[Thread] = []

    def start(self, linger_s: float = _NEVER_S, end: int = 0) -> Thread:
        thread: Thread
        if self._kind == "c":
            thread = pytest.importorskip("litemq.storage.log._group_sync").GroupSync(end, linger_s)
        else:
            thread = SyncThread(end, linger_s, os.fdatasync, self._notified.set)
        self._made.append(thread)
        return thread

    def is_notified(self, thread: Thread, within: float = HANG_S) -> bool:
        """Return whether there is a notification, and clear it."""
        if isinstance(thread, SyncThread):
            found = self._notified.wait(within)
            self._notified.clear()
            return found
        poll = select.poll()  # takes any descriptor
        poll.register(thread.event, select.POLLIN)
        found = bool(poll.poll(1000 * within))
        thread.clear_event()
        return found

    def stop(self) -> None:
        for thread in self._made:
            thread.stop()


@pytest.fixture(params=["c", "python"])
def threads(request: pytest.FixtureRequest) -> Iterator[_Threads]:
    threads = _Threads(request.param)
    yield threads
    threads.stop()


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def test_a_wait_ends_with_the_sync(threads: _Threads, fd: int) -> None:
    thread = threads.start(end=100)
    assert thread.flushed == 100
    assert thread.wait(100, 0)
    thread.written(fd, 300, False)
    assert not thread.wait(301, 0.01)  # nothing is written there
    assert thread.wait(300, HANG_S)
    assert thread.flushed == 300


def test_a_wanted_write_does_not_linger(threads: _Threads, fd: int) -> None:
    thread = threads.start()
    thread.want(0, 10)
    thread.written(fd, 10, True)
    assert threads.is_notified(thread)
    assert thread.flushed == 10
    thread.written(fd, 20, False)  # lingers
    assert thread.flushed == 10
    thread.written(fd, 30, True)
    assert thread.wait(30, HANG_S)


def test_the_loop_is_notified_once_at_the_awaited_offset(threads: _Threads, fd: int) -> None:
    thread = threads.start()
    thread.written(fd, 10, False)
    thread.want(10, 10)
    assert threads.is_notified(thread)
    thread.written(fd, 20, True)
    assert thread.wait(20, HANG_S)
    thread.want(20, 30)
    thread.written(fd, 25, True)
    assert thread.wait(25, HANG_S)
    assert not threads.is_notified(thread, 0.01)  # the offset that it awaits is not synced
    thread.written(fd, 30, True)
    assert threads.is_notified(thread)


def test_without_a_waiter_the_thread_lingers_and_syncs(threads: _Threads, fd: int) -> None:
    thread = threads.start(linger_s=0.001)
    thread.want(0, 10)
    thread.written(fd, 10, False)
    assert threads.is_notified(thread)
    assert thread.flushed == 10


def test_a_failed_sync_ends_the_thread(threads: _Threads, fd: int) -> None:
    thread = threads.start()
    closed = os.dup(fd)
    os.close(closed)
    thread.written(closed, 10, True)
    assert threads.is_notified(thread)
    assert thread.error == errno.EBADF
    assert thread.wait(10, HANG_S)  # it returns because of the failure
    thread.written(fd, 20, True)
    thread.stop()
    assert thread.flushed == 0


def test_an_abandoned_thread_syncs_nothing_more(threads: _Threads, fd: int) -> None:
    thread = threads.start()
    thread.written(fd, 10, True)
    assert thread.wait(10, HANG_S)
    thread.written(fd, 20, False)  # lingers
    thread.abandon()
    assert threads.is_notified(thread)
    assert thread.error == errno.ECANCELED
    assert thread.wait(20, HANG_S)  # it returns because of that
    thread.written(fd, 30, True)
    thread.abandon()
    assert not threads.is_notified(thread, 0.01)  # once
    thread.stop()
    assert thread.flushed == 10


def test_stopping_syncs_the_rest(threads: _Threads, fd: int) -> None:
    thread = threads.start()
    thread.written(fd, 10, False)
    thread.stop()
    assert thread.flushed == 10
    thread.stop()


def test_many_threads_wait_at_once(threads: _Threads, fd: int) -> None:
    thread = threads.start()
    done: list[int] = []

    def waiting(offset: int) -> Callable[[], None]:
        def wait() -> None:
            if thread.wait(offset, HANG_S):
                done.append(offset)

        return wait

    waiters = [threading.Thread(target=waiting(offset)) for offset in range(1, 9)]
    for waiter in waiters:
        waiter.start()
    for offset in range(1, 9):
        thread.written(fd, offset, False)
    for waiter in waiters:
        waiter.join(HANG_S)
    assert sorted(done) == [*range(1, 9)]
