"""Group workload: how long queues pause when a member of a large group joins, is killed or hangs.

Every queue receives a message at a fixed interval. The times of delivery show the pauses of each
queue.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from litemq import AsyncClient
from litemq.bench.clusters import running_brokers
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["Delivered", "GroupWorkload", "work_as_member"]

_TOPIC: Final = "grouped"
_GROUP: Final = "bench"
_MEMBERS: Final = 100
_QUEUES: Final = 256
_BROKERS: Final = 2
_EVERY_S: Final = 0.25
_QUIET_S: Final = 6.0
_AFTER_S: Final = 5.0
_SESSION_S: Final = 5.0
_SETTLED_WITHIN_S: Final = 90.0


class Delivered(NamedTuple):
    """A message that a member received."""

    at: float
    queue: tuple[str, int]
    member: str


class _Event(NamedTuple):
    """A change of the group, observed from ``at`` to ``until``.

    The session of the member ``gone``, if any, ends ``session_s`` later.
    """

    at: float
    until: float
    gone: str
    session_s: float


class GroupWorkload:
    """A group of 100 members on 256 queues of two brokers: one joins, one is killed, one hangs."""

    def __init__(self, scale: float) -> None:
        self._members = max(6, int(_MEMBERS * min(1.0, scale)))
        self._queues = max(8, int(_QUEUES // _BROKERS * min(1.0, scale))) * _BROKERS
        self._seen: list[Delivered] = []
        self.resumed = 0.0

    def unmoved(self) -> float:
        """Return the longest pause of a queue that stays, relative to a quiet group."""
        self._seen = []
        with running_brokers(_BROKERS) as (url, _):
            quiet, events = run(self._work(url))
        return self._compare_gaps(quiet, events)

    async def _work(self, url: str) -> tuple[tuple[float, float], list[_Event]]:
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(AsyncClient(url))
            await producer.admin.create_topic(_TOPIC, queues=self._queues // _BROKERS)
            killed = stack.enter_context(_process(url, "killed"))
            hung = stack.enter_context(_process(url, "hung"))
            background = [
                asyncio.create_task(self._member(url, f"member-{number}")) for number in range(self._members - 2)
            ]
            background.append(asyncio.create_task(self._send(producer, await self._keys(producer))))
            try:
                await self._wait_settled(background)
                quiet = await self._pass(_QUIET_S)
                joined = time.monotonic()
                background.append(asyncio.create_task(self._member(url, "joined")))
                await asyncio.sleep(_AFTER_S)
                events = [_Event(joined, time.monotonic(), "", 0.0)]
                for name, child, number in (("killed", killed, signal.SIGKILL), ("hung", hung, signal.SIGSTOP)):
                    child.process.send_signal(number)
                    at, until = await self._pass(_SESSION_S + _AFTER_S)
                    events.append(_Event(at, until, name, _SESSION_S))
                for child in (killed, hung):
                    self._seen += child.delivered()
            finally:
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)
        return quiet, events

    async def _pass(self, seconds: float) -> tuple[float, float]:
        begin = time.monotonic()
        await asyncio.sleep(seconds)
        return begin, time.monotonic()

    async def _member(self, url: str, name: str) -> None:
        async for delivered in _consume(url, name):
            self._seen.append(delivered)

    async def _keys(self, mq: AsyncClient) -> list[str]:
        """Find an ordering key for each queue."""
        keys: dict[tuple[str, int], str] = {}
        for number in range(100 * self._queues):
            receipt = await mq.send(_TOPIC, b"whose", ordering_key=str(number), durability="memory")
            keys.setdefault((receipt.broker, receipt.queue_id), str(number))
            if len(keys) == self._queues:
                return list(keys.values())
        raise LiteMQError(f"{100 * self._queues} keys lead to {len(keys)} of {self._queues} queues")

    async def _send(self, mq: AsyncClient, keys: list[str]) -> None:
        due = time.monotonic()
        while True:
            await mq.send_batch(
                _TOPIC, [OutgoingMessage(b"tick", ordering_key=key) for key in keys], durability="memory"
            )
            due += _EVERY_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _wait_settled(self, background: list[asyncio.Task[None]]) -> None:
        """Wait until every member has joined and the queues have stopped moving."""
        until = time.monotonic() + _SETTLED_WITHIN_S
        while time.monotonic() < until:
            for task in background:
                if task.done():
                    task.result()
            self._seen.clear()
            begin, _ = await self._pass(4 * _EVERY_S + 1)
            owners: dict[tuple[str, int], set[str]] = defaultdict(set)
            for each in self._seen:
                if each.at > begin:
                    owners[each.queue].add(each.member)
            members = set[str]().union(*owners.values())
            # Deliveries of the two other processes are not visible here, so their share of the
            # queues is missing.
            min_queues = self._queues - 2 * (self._queues // self._members + _BROKERS)
            if (
                len(owners) >= min_queues
                and len(members) == self._members - 2
                and all(len(each) == 1 for each in owners.values())
            ):
                return
        raise LiteMQError(
            f"the group did not settle within {_SETTLED_WITHIN_S:g} s: {len(owners)} queues, {len(members)} members"
        )

    def _compare_gaps(self, quiet: tuple[float, float], events: list[_Event]) -> float:
        by_queue: dict[tuple[str, int], list[Delivered]] = defaultdict(list)
        for each in sorted(self._seen):
            by_queue[each.queue].append(each)
        if len(by_queue) != self._queues:
            raise LiteMQError(f"{self._queues - len(by_queue)} of {self._queues} queues delivered nothing")
        longest_quiet = max(_longest_gap(seen, *quiet) for seen in by_queue.values())
        longest, self.resumed = 0.0, 0.0
        for event in events:
            for seen in by_queue.values():
                before = [each for each in seen if each.at <= event.at]
                after = [each for each in seen if event.at < each.at <= event.until]
                owner = before[-1].member
                others = [each.at for each in after if each.member != owner]
                if not others and owner != event.gone:
                    longest = max(longest, _longest_gap(seen, event.at, event.until))
                elif not others:
                    self.resumed = float("inf")  # the owner is gone, and no member has taken the queue
                else:
                    stopped = (
                        event.at + event.session_s
                        if owner == event.gone
                        else max(each.at for each in seen if each.at < others[0])
                    )
                    self.resumed = max(self.resumed, others[0] - stopped)
        return longest / longest_quiet


def _longest_gap(seen: list[Delivered], begin: float, end: float) -> float:
    """Return the longest time without a message between ``begin`` and ``end``."""
    times = [each.at for each in seen if begin <= each.at <= end]
    return max(later - earlier for earlier, later in pairwise([begin, *times, end]))


async def _consume(url: str, name: str) -> AsyncIterator[Delivered]:
    async with (
        AsyncClient(url, client_id=name, session_timeout_ms=int(_SESSION_S * 1000)) as mq,
        mq.consumer(_TOPIC, group_id=_GROUP) as messages,
    ):
        async for message in messages:
            yield Delivered(time.monotonic(), (message.broker, message.queue_id), name)
            await message.ack()


def work_as_member(url: str, name: str, path: str) -> None:
    """Run a member in its own process, which writes a line for each message it receives."""

    async def work() -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        async for at, (broker, queue_id), _ in _consume(url, name):
            os.write(file, f"{at} {broker} {queue_id}\n".encode())

    run(work())


class _Child(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]
    path: Path

    def delivered(self) -> list[Delivered]:
        """Return the messages that it received."""
        rows = [line.split(" ") for line in self.path.read_text("utf-8").splitlines()]
        return [Delivered(float(at), (broker, int(queue_id)), self.name) for at, broker, queue_id in rows]


@contextmanager
def _process(url: str, name: str) -> Iterator[_Child]:
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder:
        path = Path(folder) / "delivered"
        program = (
            "from litemq.bench.workloads.members import work_as_member; "
            f"work_as_member({url!r}, {name!r}, {str(path)!r})"
        )
        with subprocess.Popen([sys.executable, "-c", program]) as process:  # noqa: S603
            try:
                yield _Child(name, process, path)
            finally:
                process.kill()
