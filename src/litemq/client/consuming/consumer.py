"""Reading a topic for a group: what is acknowledged is committed, and does not come again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from typing import Final

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig, OffsetReset
from litemq.client.consuming.feed import Feed
from litemq.client.consuming.group_member import Following, GroupMember
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import Backend, CommittedOffset, QueueFact
from litemq.client.engine.groups import Joining
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.identity import new_suffix
from litemq.client.leases.leases import Leases
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Handling
from litemq.errors import ConnectionLostError, LiteMQError, NotGroupMemberError, OffsetOutOfRangeError, OverloadedError, RequestTimeoutError

__all__ = ["Consumer"]

_LAST_COMMIT_S: Final = 1.0
_LOG = logging.getLogger(__name__)


class Consumer(Feed):
    """``async for message in consumer:`` gives the messages of its queues, those of one queue in order. Acknowledge each when it is done.

    A group's queues are shared among its consumers. When another one comes or goes, some change hands; the others are read on.
    """

    def __init__(
        self,
        backend: Backend,
        topic: str,
        group: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        reset: OffsetReset,
        commits: bool,
        leases: Leases,
        handling: Handling,
        selection: Selection = EVERYTHING,
    ) -> None:
        super().__init__(backend, topic, config, serializers, group=group, settles=True, selection=selection)
        self.group_id = group
        self._reset: OffsetReset = reset
        self._commits = commits
        self._committing = asyncio.Lock()
        self._leases = leases
        self._handling = handling
        self._joined: set[str] = set()
        member = f"{config.client_id}/{new_suffix()}"  # a client may have several consumers in a group
        self._joining = Joining(topic, group, member, config.session_timeout_ms, config.assignment, config.zone)
        self._following = Following(self._held, self._begin_queue, self._read_queue, self._finish_queue, self._commit_finished, self._drop)

    @property
    def assignment(self) -> frozenset[tuple[str, int]]:
        """The queues that this consumer reads now, as (broker, number)."""
        return frozenset((reader.broker, reader.queue_id) for reader in self._queues.values() if not reader.is_retry)

    def _new_reader(self, queue: QueueFact, start: int) -> QueueReader:
        reader = super()._new_reader(queue, start)
        reader.settler, reader.handling = self._leases.settler(queue.broker, self.topic, self.group_id), self._handling
        return reader

    def _start(self) -> None:
        if not self._started and not self._closed and self._commits:
            self._run(" commits", self._commit_behind())
        super()._start()

    # As a member of the group -------------------------------------------------------------------------------------------------

    async def _read_broker(self, broker: str) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            try:
                self._joined.add(broker)
                await GroupMember(self._backend, broker, self._joining, self._following).stay()
            except NotGroupMemberError as error:
                _LOG.info("joining group %s for %s on %s again: %s", self.group_id, self.topic, broker, error)
                for reader in self._held(broker):
                    self._put_back(reader)  # its queue may be another's by now
            except (ConnectionLostError, RequestTimeoutError, OverloadedError) as error:
                _LOG.info("reading %s from %s again: %s", self.topic, broker, error)
            if now() - began > 1:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    def _held(self, broker: str) -> list[QueueReader]:
        """The queues of a broker that are read, or were when its connection was lost."""
        return [reader for reader in self._queues.values() if reader.broker == broker]

    async def _begin_queue(self, queue: QueueFact, reset_id: str) -> QueueReader:
        """Begin with a queue where the group is, or go on with it after the broker was lost and found."""
        reader = self._queues.get(queue.key)
        if reader is not None and reader.acks is not None:
            if reader.reset_id == reset_id:
                if reader.generation != queue.generation:
                    self._put_back(reader)  # others may have had it in between
                    reader.generation = queue.generation
                reader.skip_to(queue.committed)
                reader.acks.committed = max(reader.acks.committed, queue.committed)  # a commit may have been answered since
                return reader
            self._drop(reader)  # somebody set the group's offsets: it is to be read again
        start = await self._start_of(queue)
        reader = self._new_reader(queue, start)
        reader.reset_id = reset_id
        if reader.acks is not None:
            reader.acks.committed = queue.committed  # a group that begins says where: so it is known how much is left
        self._check_start(reader, queue)
        return reader

    async def _start_of(self, queue: QueueFact) -> int:
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
        """Wait, not for ever, until what was taken of a queue is acknowledged; what was not taken is for its next owner."""
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
                "queue %d of %s on %s is another's now; its messages %d … %d come again there",
                *(reader.queue_id, self.topic, reader.broker, acks.done, taken_to - 1),
            )

    async def _commit_finished(self) -> None:
        if self._commits:
            await self.commit()

    def _put_back(self, reader: QueueReader) -> None:
        """Give out nothing that was fetched of a queue and not taken: it is fetched again, if it is still to be had here."""
        untaken = self._inbox.drop(reader)
        if untaken is not None:
            reader.position = untaken

    def _drop(self, reader: QueueReader) -> None:
        """A queue is read no longer here."""
        self._inbox.drop(reader)
        self._cold.end(reader)
        if self._queues.get(reader.key) is reader:
            del self._queues[reader.key]

    # Committing ---------------------------------------------------------------------------------------------------------------

    async def _commit_behind(self) -> None:
        interval = self._config.auto_commit_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            try:
                await self.commit()
            except LiteMQError as error:
                _LOG.info("offsets of group %s are committed later: %s", self.group_id, error)

    async def commit(self) -> None:
        """Tell the brokers how far the acknowledged messages reach, in each queue up to the first that is not."""
        async with self._committing:
            behind: dict[str, list[QueueReader]] = defaultdict(list)
            for reader in self._queues.values():
                if reader.acks is not None and reader.acks.wants_commit():
                    behind[reader.broker].append(reader)
            outcomes = await asyncio.gather(*(self._commit_to(*each) for each in behind.items()), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _commit_to(self, broker: str, readers: list[QueueReader]) -> None:
        done = [(reader.acks, reader.acks.done) for reader in readers if reader.acks is not None]
        offsets = [
            CommittedOffset(reader.queue_id, offset, reader.generation, reader.is_retry)
            for reader, (_, offset) in zip(readers, done, strict=True)
        ]
        await self._backend.commit(broker, self.topic, self.group_id, offsets)
        for acks, offset in done:
            acks.committed = max(acks.committed, offset)

    async def close(self) -> None:
        """Stop reading, and commit what was acknowledged. What was not comes again."""
        if self._started and self._commits and not self.is_closed:
            self.stop()
            await self._commit_as_member()
        await super().close()

    async def _commit_as_member(self) -> None:
        """Commit while still a member: one whose connection was just lost is given a moment to join again, so that nothing comes twice."""
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_COMMIT_S):
                while True:
                    try:
                        return await self.commit()
                    except (NotGroupMemberError, ConnectionLostError, OverloadedError):
                        await asyncio.sleep(backoff.next())
                    except LiteMQError as error:
                        _LOG.info("offsets of group %s are not committed: %s", self.group_id, error)
                        return None

    async def _finish(self) -> None:
        try:
            await self._leases.flush()  # what failed is told before it counts as done
            if self._commits:
                await self.commit()
        except LiteMQError as error:
            _LOG.warning("the last offsets of group %s were not committed, their messages come again: %s", self.group_id, error)
        await asyncio.gather(*(self._backend.leave(broker, self._joining) for broker in self._joined), return_exceptions=True)
