"""Steady load that records when its messages are acknowledged, also while there is no master."""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from litemq import AsyncClient, SendReceipt
from litemq.bench.workloads.group_watch import poll
from litemq.errors import BufferFullError

__all__ = ["SteadyAcks", "Unmatched", "compare_acked", "sending"]

_TURN_S: Final = 0.002
_NUMBER_BYTES: Final = 8
_REST: Final = secrets.token_bytes(1024 - _NUMBER_BYTES)


class SteadyAcks:
    """Sends ``rate`` messages of 1 KiB per second. Times are those of the monotonic clock.

    While the client's buffer is full, it sends fewer. Each body begins with a number.
    """

    def __init__(self, mq: AsyncClient, topic: str, rate: float) -> None:
        self._mq = mq
        self._rate = rate
        self.topic = topic
        self.acked_at = array("d")
        self.acked = array("q")  # the numbers of these messages
        self.failed = 0
        self.first_error = ""

    async def run(self) -> None:
        """Send until cancelled."""
        begin, sent, number = time.monotonic(), 0, 0
        while True:
            due = int((time.monotonic() - begin) * self._rate)
            while sent < due:
                try:
                    future = self._mq.send_nowait(self.topic, number.to_bytes(_NUMBER_BYTES) + _REST)
                except BufferFullError:
                    begin, sent = time.monotonic(), 0
                    break
                future.add_done_callback(partial(self._on_done, number))
                sent, number = sent + 1, number + 1
            await asyncio.sleep(_TURN_S)

    def _on_done(self, number: int, future: asyncio.Future[SendReceipt]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.acked_at.append(time.monotonic())
            self.acked.append(number)
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


class Unmatched(NamedTuple):
    """How the messages of a topic differ from those that were acknowledged."""

    lost: int
    duplicates: int


async def compare_acked(mq: AsyncClient, load: SteadyAcks) -> Unmatched:
    """Read the topic of a load that has ended, and look for each acknowledged number."""
    return _compare(
        load.acked,
        [int.from_bytes(message.body[:_NUMBER_BYTES]) async for message in mq.reader(load.topic, follow=False)],
    )


def _compare(acked: Iterable[int], stored: Iterable[int]) -> Unmatched:
    copies = Counter(stored)
    return Unmatched(len(set(acked) - copies.keys()), copies.total() - len(copies))


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
