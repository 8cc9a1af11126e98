"""A consumer's membership of its group on one broker: join, send heartbeats, follow the assignment.

One task reads each assigned queue. Releasing a queue ends its task and does not disturb the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import Assignment, Engine, QueueInfo
from litemq.client.engine.groups import GroupJoin
from litemq.errors import LiteMQError

__all__ = ["GroupMember", "MemberCallbacks"]

_LOG = logging.getLogger(__name__)
_BEATS: Final = 3  # heartbeats per session timeout


class MemberCallbacks(NamedTuple):
    """How a consumer handles the queues of its membership."""

    held: Callable[
        [str], list[QueueReader]
    ]  # returns the queues that were read from a broker before the connection was lost
    begin: Callable[[QueueInfo, str], Awaitable[QueueReader]]  # starts or continues a queue; takes the latest reset id
    read: Callable[[QueueReader], Awaitable[None]]  # reads until cancelled
    finish: Callable[
        [QueueReader], Coroutine[Any, Any, None]
    ]  # waits, for a limited time, until delivered messages are done
    commit: Callable[[], Awaitable[None]]  # commits all finished messages
    drop: Callable[[QueueReader], None]  # the queue has another owner


class GroupMember:
    """A membership on one broker, from joining until the connection or the session is lost."""

    def __init__(self, engine: Engine, broker: str, joining: GroupJoin, callbacks: MemberCallbacks) -> None:
        self._engine = engine
        self._broker = broker
        self._joining = joining
        self._callbacks = callbacks
        self._reading: dict[int, asyncio.Task[None]] = {}  # by generation
        self._readers: dict[int, QueueReader] = {}
        self._releasing: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def stay(self) -> None:
        """Join and read the assigned queues.

        Returns only by raising the error that ended the membership.
        """
        held = self._callbacks.held(self._broker)
        assignment = await self._engine.join(
            self._broker,
            self._joining,
            [reader.queue_id for reader in held if not reader.is_retry],
            any(each.is_retry for each in held),
        )
        try:
            kept = {(queue.queue_id, queue.is_retry) for queue in assignment.queues}
            for reader in held:
                if (reader.queue_id, reader.is_retry) not in kept:
                    self._callbacks.drop(reader)
            self._follow(assignment)
            self._run(self._beat(assignment))
            await self._failed
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _beat(self, assignment: Assignment) -> None:
        """Send heartbeats. The broker answers at a new assignment, or when the next one is due."""
        version = assignment.version
        wait_ms = max(1, assignment.session_timeout_ms // _BEATS)
        while True:
            answer = await self._engine.heartbeat(self._broker, self._joining, assignment.session, version, wait_ms)
            if answer is not None:
                version = answer.version
                self._follow(answer)

    def _follow(self, assignment: Assignment) -> None:
        for queue in assignment.queues:
            if queue.generation not in self._reading and queue.generation not in self._releasing:
                self._reading[queue.generation] = self._run(self._read(queue, assignment.reset_id))
        unwanted = [generation for generation in assignment.release if generation not in self._releasing]
        if unwanted:
            self._releasing.update(unwanted)
            self._run(self._release(unwanted, assignment.session))

    async def _read(self, queue: QueueInfo, reset_id: str) -> None:
        reader = self._readers[queue.generation] = await self._callbacks.begin(queue, reset_id)
        await self._callbacks.read(reader)

    async def _release(self, generations: list[int], session: int) -> None:
        """Stop reading queues, and release each one once its delivered messages are done.

        Queues without unfinished messages are released at once, with one request.
        """
        reading = [task for generation in generations if (task := self._reading.pop(generation, None)) is not None]
        for task in reading:
            task.cancel()
        if reading:
            await asyncio.wait(reading)
        finishing = {self._run(self._finish(self._readers.get(generation))): generation for generation in generations}
        while finishing:
            finished, _ = await asyncio.wait(finishing, return_when=asyncio.FIRST_COMPLETED)
            try:
                await self._callbacks.commit()
            except LiteMQError as error:
                _LOG.info(
                    "committing released queues of %s failed, their last messages will be delivered again: %s",
                    self._joining.topic,
                    error,
                )
            released = [finishing.pop(task) for task in finished]
            for generation in released:
                reader = self._readers.pop(generation, None)
                if reader is not None:
                    self._callbacks.drop(reader)
            await self._engine.release(self._broker, self._joining, session, released)
            self._releasing.difference_update(released)

    async def _finish(self, reader: QueueReader | None) -> None:
        if reader is not None:
            await self._callbacks.finish(reader)
