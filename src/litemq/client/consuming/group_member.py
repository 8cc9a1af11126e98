"""A consumer as a member of its group on one broker: it joins, stays, and follows its assignment.

Queues that it gets are read each by a task of its own; one that it has to give up ends alone, and the others hear nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import Assignment, Backend, QueueFact
from litemq.client.engine.groups import Joining
from litemq.errors import LiteMQError

__all__ = ["Following", "GroupMember"]

_LOG = logging.getLogger(__name__)
_BEATS: Final = 3  # heartbeats in the time of a session


class Following(NamedTuple):
    """What is done with queues, by a consumer."""

    held: Callable[[str], list[QueueReader]]  # the queues of a broker that were read before its connection was lost
    begin: Callable[[QueueFact, str], Awaitable[QueueReader]]  # begin with a queue, or go on with it; the reset after which it was assigned
    read: Callable[[QueueReader], Awaitable[None]]  # until cancelled
    finish: Callable[[QueueReader], Coroutine[Any, Any, None]]  # bring to its end what was begun, not for ever
    commit: Callable[[], Awaitable[None]]  # everything that is done
    drop: Callable[[QueueReader], None]  # it is another's by now


class GroupMember:
    """Its life on one broker, from joining to the loss of the connection or the session."""

    def __init__(self, backend: Backend, broker: str, joining: Joining, following: Following) -> None:
        self._backend = backend
        self._broker = broker
        self._joining = joining
        self._following = following
        self._reading: dict[int, asyncio.Task[None]] = {}  # by generation
        self._readers: dict[int, QueueReader] = {}
        self._releasing: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def stay(self) -> None:
        """Join, and read what is assigned. Ends with the error that ended it."""
        held = self._following.held(self._broker)
        assignment = await self._backend.join(
            self._broker, self._joining, [reader.queue_id for reader in held if not reader.is_retry], any(each.is_retry for each in held)
        )
        try:
            kept = {(queue.queue_id, queue.is_retry) for queue in assignment.queues}
            for reader in held:
                if (reader.queue_id, reader.is_retry) not in kept:
                    self._following.drop(reader)
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
        """Say that one is there; the answer comes when something is new, or it is time to say it again."""
        version = assignment.version
        wait_ms = max(1, assignment.session_timeout_ms // _BEATS)
        while True:
            answer = await self._backend.heartbeat(self._broker, self._joining, assignment.session, version, wait_ms)
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

    async def _read(self, queue: QueueFact, reset_id: str) -> None:
        reader = self._readers[queue.generation] = await self._following.begin(queue, reset_id)
        await self._following.read(reader)

    async def _release(self, generations: list[int], session: int) -> None:
        """Stop reading queues, and give each up as soon as what was taken of it is done: those without anything at once and together."""
        reading = [task for generation in generations if (task := self._reading.pop(generation, None)) is not None]
        for task in reading:
            task.cancel()
        if reading:
            await asyncio.wait(reading)
        finishing = {self._run(self._finish(self._readers.get(generation))): generation for generation in generations}
        while finishing:
            finished, _ = await asyncio.wait(finishing, return_when=asyncio.FIRST_COMPLETED)
            try:
                await self._following.commit()
            except LiteMQError as error:
                _LOG.info("queues of %s are given up, and their last messages come again: %s", self._joining.topic, error)
            given_up = [finishing.pop(task) for task in finished]
            for generation in given_up:
                reader = self._readers.pop(generation, None)
                if reader is not None:
                    self._following.drop(reader)
            await self._backend.release(self._broker, self._joining, session, given_up)
            self._releasing.difference_update(given_up)

    async def _finish(self, reader: QueueReader | None) -> None:
        if reader is not None:
            await self._following.finish(reader)
