"""Steady load that records when its messages are acknowledged, also while there is no master."""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Final

from litemq import AsyncClient, SendReceipt
from litemq.bench.workloads.group_watch import poll
from litemq.errors import BufferFullError

__all__ = ["SteadyAcks", "sending"]

_TURN_S: Final = 0.002
_BODY: Final = secrets.token_bytes(1024)


class SteadyAcks:
    """Sends ``rate`` messages of 1 KiB per second. Times are those of the monotonic clock.

    While the client's buffer is full, it sends fewer.
    """

    def __init__(self, mq: AsyncClient, topic: str, rate: float) -> None:
        self._mq = mq
        self._topic = topic
        self._rate = rate
        self.acked_at = array("d")
        self.failed = 0
        self.first_error = ""

    async def run(self) -> None:
        """Send until cancelled."""
        begin, sent = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - begin) * self._rate)
            while sent < due:
                try:
                    future = self._mq.send_nowait(self._topic, _BODY)
                except BufferFullError:
                    begin, sent = time.monotonic(), 0
                    break
                future.add_done_callback(self._on_done)
                sent += 1
            await asyncio.sleep(_TURN_S)

    def _on_done(self, future: asyncio.Future[SendReceipt]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.acked_at.append(time.monotonic())
        else:
            self.failed += 1
            self.first_error = self.first_error or f"{type(error).__name__}: {error}"

    def longest_pause(self, begin: float) -> tuple[float, float]:
        """Return begin and end of the longest time without an acknowledgement.

        Times that end before ``begin`` do not count.
        """
        times = self.acked_at[max(0, bisect_right(self.acked_at, begin) - 1) :]
        return max(pairwise(times), key=lambda pause: pause[1] - pause[0])

    async def wait_acked(self, moment: float, count: int = 1) -> None:
        """Wait until ``count`` messages are acknowledged after ``moment``."""
        await poll(
            lambda: len(self.acked_at) >= count and self.acked_at[-count] > moment,
            f"{count} messages are acknowledged",
        )


@asynccontextmanager
async def sending(mq: AsyncClient, topic: str, rate: float) -> AsyncIterator[SteadyAcks]:
    """Send in the background until the block ends."""
    load = SteadyAcks(mq, topic, rate)
    task = asyncio.create_task(load.run())
    try:
        yield load
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
