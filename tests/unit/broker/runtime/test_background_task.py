"""Background tasks: one run at a time, retried after a failure that is logged once."""

import asyncio
import logging

import pytest

from litemq.broker.runtime.background_task import BackgroundTask
from litemq.errors import DiskFullError


class _Work:
    """Fails as often as configured."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.may_end = asyncio.Event()
        self.done = 0
        self.then: list[int] = []
        self.task = BackgroundTask("tests", "nothing was done", self)

    async def work(self) -> None:
        await self.may_end.wait()
        if self.failures:
            raise DiskFullError(self.failures.pop(0))
        self.done += 1

    def on_end(self, after_ms: int) -> None:
        self.then.append(after_ms)

    async def ended(self) -> None:
        assert self.task.task is not None
        await asyncio.wait((self.task.task,))


def test_one_run_at_a_time() -> None:
    async def main() -> None:
        work = _Work()
        assert work.task.begin()
        assert not work.task.begin()
        work.may_end.set()
        await work.ended()
        assert (work.done, work.then, work.task.task) == (1, [0], None)
        assert work.task.begin()
        await work.ended()
        assert (work.done, work.then) == (2, [0, 0])

    asyncio.run(main())


def test_a_failure_is_logged_once_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        work = _Work("full", "full", "fuller")
        work.may_end.set()
        for _ in range(4):
            work.task.begin()
            await work.ended()
        assert work.done == 1
        assert [wait > 0 for wait in work.then] == [True, True, True, False]

    with caplog.at_level(logging.WARNING, "litemq"):
        asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "nothing was done: full. Retrying in 1 s",
        "nothing was done: fuller. Retrying in 1 s",
    ]


def test_a_closed_task_ends_and_starts_no_run() -> None:
    async def main() -> None:
        work = _Work()
        work.task.begin()
        await asyncio.sleep(0)
        task = work.task.task
        assert task is not None
        work.task.close()
        await asyncio.wait((task,))
        assert task.cancelled()
        assert not work.task.begin()
        assert (work.done, work.then) == (0, [])

    asyncio.run(main())
