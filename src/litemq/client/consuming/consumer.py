"""The consumer of a group in queue mode: reads assigned queues in order and commits offsets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from typing import Final

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig, OffsetReset
from litemq.client.consuming.feed import Feed
from litemq.client.consuming.group_member import GroupMember, MemberCallbacks
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import CommittedOffset, Engine, QueueInfo
from litemq.client.engine.groups import GroupJoin
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.identity import new_suffix
from litemq.client.leases.leases import Leases
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import SettlePolicy
from litemq.errors import (
    ConnectionLostError,
    LiteMQError,
    NotConfirmedError,
    NotGroupMemberError,
    NotMasterError,
    OffsetOutOfRangeError,
    OverloadedError,
    RequestTimeoutError,
)

__all__ = ["Consumer"]

_LAST_COMMIT_S: Final = 1.0
_LOG = logging.getLogger(__name__)
_TRANSIENT: Final = (ConnectionLostError, RequestTimeoutError, NotConfirmedError, NotMasterError, OverloadedError)


class Consumer(Feed):
    """Iterates over the messages of a topic for a group: ``async for message in consumer:``.

    The brokers share the topic's queues among the consumers of the group. Messages of one queue
    arrive in order. When a consumer joins or leaves, only the queues that change their owner pause.
    Settle each message.
    """

    def __init__(
        self,
        engine: Engine,
        topic: str,
        group: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        reset: OffsetReset,
        commits: bool,
        leases: Leases,
        settle_policy: SettlePolicy,
        selection: Selection = EVERYTHING,
    ) -> None:
        super().__init__(engine, topic, config, serializers, group=group, settles=True, selection=selection)
        self.group_id = group
        self._reset: OffsetReset = reset
        self._commits = commits
        self._committing = asyncio.Lock()
        self._leases = leases
        self._settle_policy = settle_policy
        self._joined: set[str] = set()
        member = f"{config.client_id}/{new_suffix()}"  # a client may have several consumers in a group
        self._joining = GroupJoin(topic, group, member, config.session_timeout_ms, config.assignment, config.zone)
        self._callbacks = MemberCallbacks(
            self._held, self._begin_queue, self._read_queue, self._finish_queue, self._commit_finished, self._drop
        )

    @property
    def assignment(self) -> frozenset[tuple[str, int]]:
        """The queues that this consumer reads now, as (broker, number)."""
        return frozenset((reader.broker, reader.queue_id) for reader in self._queues.values() if not reader.is_retry)

    def _new_reader(self, queue: QueueInfo, start: int) -> QueueReader:
        reader = super()._new_reader(queue, start)
        reader.settler, reader.settle_policy = (
            self._leases.settler(queue.broker, self.topic, self.group_id),
            self._settle_policy,
        )
        return reader

    def _start(self) -> None:
        if not self._started and not self._closed and self._commits:
            self._run(" commits", self._commit_periodically())
        super()._start()

    # As a member of the group ---------------------------------------------------------------------

    async def _read_broker(self, broker: str) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            try:
                self._joined.add(broker)
                await GroupMember(self._engine, broker, self._joining, self._callbacks).stay()
            except NotGroupMemberError as error:
                _LOG.info(
                    "lost membership of group %s for %s on %s, rejoining: %s", self.group_id, self.topic, broker, error
                )
                for reader in self._held(broker):
                    self._put_back(reader)  # its queue may have another owner
            except _TRANSIENT as error:
                _LOG.info("reading %s from %s failed, retrying: %s", self.topic, broker, error)
            if now() - began > 1:
                backoff.reset()
            await asyncio.sleep(backoff.next_delay())

    def _held(self, broker: str) -> list[QueueReader]:
        """Return the readers of ``broker``, including those from before a lost connection."""
        return [reader for reader in self._queues.values() if reader.broker == broker]

    async def _begin_queue(self, queue: QueueInfo, reset_id: str) -> QueueReader:
        """Start reading ``queue`` at the group's offset, or continue after a reconnect."""
        reader = self._queues.get(queue.key)
        if reader is not None and reader.acks is not None:
            if reader.reset_id == reset_id:
                if reader.generation != queue.generation:
                    self._put_back(reader)  # the queue may have had another owner in between
                    reader.generation = queue.generation
                reader.skip_to(queue.committed)
                reader.acks.committed = max(
                    reader.acks.committed, queue.committed
                )  # a commit may have succeeded although its answer was lost
                return reader
            self._drop(reader)  # the group's offsets were reset: read the queue again
        start = await self._start_offset(queue)
        reader = self._new_reader(queue, start)
        reader.reset_id = reset_id
        if reader.acks is not None:
            reader.acks.committed = queue.committed  # a new group commits its start, so that its lag is known
        self._check_start(reader, queue)
        return reader

    async def _start_offset(self, queue: QueueInfo) -> int:
        if queue.committed >= 0:
            return queue.committed
        if queue.is_retry:
            return queue.least
        if self._reset == "error":
            raise OffsetOutOfRangeError(
                f"group {self.group_id!r} has no offset in queue {queue.queue_id} of {self.topic!r} on {queue.broker}: "
                "choose auto_offset_reset='earliest' or 'latest'"
            )
        return await self._oldest(queue) if self._reset == "earliest" else queue.next

    async def _finish_queue(self, reader: QueueReader) -> None:
        """Wait until the delivered messages of a queue are acknowledged, up to the session timeout.

        The next owner reads the messages that were not delivered.
        """
        untaken = self._inbox.drop(reader)
        acks = reader.acks
        if acks is None:
            return
        taken_to = reader.position if untaken is None else untaken
        try:
            async with asyncio.timeout(self._config.session_timeout_ms / 1000):
                await acks.wait_done(taken_to)
        except TimeoutError:
            _LOG.info(
                "queue %d of %s on %s has another owner; it will deliver messages %d … %d again",
                *(reader.queue_id, self.topic, reader.broker, acks.done, taken_to - 1),
            )

    async def _commit_finished(self) -> None:
        if self._commits:
            await self.commit()

    def _put_back(self, reader: QueueReader) -> None:
        """Discard the undelivered messages of ``reader``, to fetch them again."""
        untaken = self._inbox.drop(reader)
        if untaken is not None:
            reader.position = untaken

    def _drop(self, reader: QueueReader) -> None:
        """Stop reading the queue of ``reader``."""
        reader.is_lost = True
        self._inbox.drop(reader)
        self._archive.end(reader)
        if self._queues.get(reader.key) is reader:
            del self._queues[reader.key]

    # Committing -----------------------------------------------------------------------------------

    async def _commit_periodically(self) -> None:
        interval = self._config.auto_commit_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            try:
                await self.commit()
            except LiteMQError as error:
                _LOG.info("committing the offsets of group %s failed, retrying: %s", self.group_id, error)

    async def commit(self) -> None:
        """Commit, for each queue, the offset below which all messages are acknowledged.

        Raises:
            NotGroupMemberError: A queue has another owner now; its messages are delivered there.
            NetworkError: A broker did not answer. The next commit repeats the offsets.
        """
        async with self._committing:
            uncommitted: dict[str, list[QueueReader]] = defaultdict(list)
            for reader in self._queues.values():
                if reader.acks is not None and reader.acks.needs_commit():
                    uncommitted[reader.broker].append(reader)
            outcomes = await asyncio.gather(
                *(self._commit_to(*each) for each in uncommitted.items()), return_exceptions=True
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _commit_to(self, broker: str, readers: list[QueueReader]) -> None:
        done = [(reader.acks, reader.acks.done) for reader in readers if reader.acks is not None]
        offsets = [
            CommittedOffset(reader.queue_id, offset, reader.generation, reader.is_retry)
            for reader, (_, offset) in zip(readers, done, strict=True)
        ]
        await self._engine.commit(broker, self.topic, self.group_id, offsets)
        for acks, offset in done:
            acks.committed = max(acks.committed, offset)

    async def close(self) -> None:
        """Stop reading, commit and leave the group.

        Unacknowledged messages are delivered again. Raises nothing.

        Without ``enable_auto_commit``, it does not commit.
        """
        if self._started and self._commits and not self.is_closed:
            self.stop()
            try:
                await self._commit_as_member()
            except asyncio.CancelledError:
                # It delivers nothing any more. Without heartbeats, its queues go to other members.
                for task in self._tasks.values():
                    task.cancel()
                raise
        await super().close()

    async def _commit_as_member(self) -> None:
        """Commit while the consumer is a member.

        After a lost connection, give it a moment to rejoin, to avoid duplicates.
        """
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_COMMIT_S):
                while True:
                    try:
                        return await self.commit()
                    except (NotGroupMemberError, *_TRANSIENT):
                        await asyncio.sleep(backoff.next_delay())
                    except LiteMQError as error:
                        _LOG.info("committing the offsets of group %s failed: %s", self.group_id, error)
                        return None

    async def _finish(self) -> None:
        try:
            await self._leases.flush()  # a failed message counts as done only after the broker has stored it
            if self._commits:
                await self.commit()
        except LiteMQError as error:
            _LOG.warning(
                "the last offsets of group %s were not committed, their messages will be delivered again: %s",
                self.group_id,
                error,
            )
        await asyncio.gather(
            *(self._engine.leave(broker, self._joining) for broker in self._joined), return_exceptions=True
        )
        for reader in self._queues.values():
            reader.is_lost = True
