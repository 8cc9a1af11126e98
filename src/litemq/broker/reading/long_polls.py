"""Long polls: a pull that finds no message waits until its queue has some, or until its wait time
ends.

Records in memory are read at once. Others are read by the store's threads, one pull of a caller
after another. If a caller does not read its answers, its pulls wait until it does.

A pull may ask for its answer in parts. It is then answered whenever messages arrive, until it has
as many as it asked for, or its wait time ends. A reader that keeps up needs few requests.

A pull with a filter skips the messages that the filter rejects. Its answer says where to continue,
also if it has found nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from litemq.broker.reading.filtered_scan import Scan, ScanResult, scan, scan_if_hot
from litemq.broker.reading.visibility import visible_to
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.broker.topics.queue_ranges import offset_range
from litemq.errors import (
    CorruptStoreError,
    InvalidArgumentError,
    LiteMQError,
    NotGroupMemberError,
    OffsetExpiredError,
    OffsetOutOfRangeError,
    OverloadedError,
)
from litemq.filters.filter import Filter, parse_filter
from litemq.format.batches.extent import Extent, find_extent
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import PullAnswer, PullRequest
from litemq.storage.state import QueueKey
from litemq.storage.store import QueueReads

__all__ = ["LongPolls"]

_RETRY_AFTER_MS: Final = 100
_REPAIR_S: Final = 0.5  # a replica tries this often to repair its log
_LOG = logging.getLogger(__name__)


class _Pull:
    """A pull that is not answered yet."""

    __slots__ = (
        "caller",
        "frame",
        "generation",
        "group",
        "in_parts",
        "key",
        "max_bytes",
        "max_messages",
        "offset",
        "queues",
        "timer",
        "wanted",
    )

    def __init__(
        self, caller: Caller, frame: Frame, key: QueueKey, request: PullRequest, context: BrokerContext
    ) -> None:
        limits = context.limits
        self.caller = caller
        self.frame = frame
        self.key = key
        self.queues: QueueReads = context.store.for_consumers if request.group else context.store
        self.offset = request.offset
        self.max_messages = min(request.max_messages, limits.max_pull_messages)
        self.max_bytes = min(request.max_bytes or limits.max_pull_bytes, limits.max_pull_bytes)
        self.wanted = parse_filter(request.filter, is_sql=request.filter_is_sql)
        self.generation = request.generation
        self.group = request.group
        self.in_parts = request.in_parts and request.wait_ms > 0
        self.timer: asyncio.TimerHandle | None = None


class LongPolls(QueueListener):
    """The pulls of all callers, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._store = context.store
        self._clock = context.clock
        self._limits = context.limits
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[QueueKey, dict[_Pull, None]] = {}
        self._caller_pulls: dict[Caller, dict[_Pull, None]] = defaultdict(dict)
        self._cold: dict[
            Caller, deque[_Pull]
        ] = {}  # read one at a time, since the answers take memory until they are sent
        self._reading: set[asyncio.Task[None]] = set()
        self._scanning: Executor = ThreadPoolExecutor(2, thread_name_prefix="litemq-scan")

    @property
    def waiting(self) -> int:
        """The number of pulls that wait for messages."""
        return sum(map(len, self._waiting.values()))

    @property
    def waited_for(self) -> list[QueueKey]:
        """The queues that pulls wait for."""
        return list(self._waiting)

    def offer(self, caller: Caller, frame: Frame, request: PullRequest, key: QueueKey) -> None:
        """Take a pull. It is answered when there are messages, or when its wait time ends."""
        limits = self._limits
        if len(self._caller_pulls.get(caller, ())) + len(self._cold.get(caller, ())) >= limits.max_waiting_pulls:
            raise OverloadedError(
                f"this client has {limits.max_waiting_pulls} waiting pulls: wait for their answers first",
                _RETRY_AFTER_MS,
            )
        if request.max_messages < 1 or request.offset < 0:
            raise InvalidArgumentError(
                f"max_messages={request.max_messages}, offset={request.offset}: choose at least 1 message and an "
                "offset of at least 0"
            )
        pull = _Pull(caller, frame, key, request, self._context)
        if not self._try(pull):
            wait_ms = min(request.wait_ms, limits.max_pull_wait_ms)
            if not wait_ms:
                self._answer(pull, b"")
                return
            self._caller_pulls[caller][pull] = None
            self._waiting.setdefault(pull.key, {})[pull] = None
            pull.timer = self._loop.call_later(wait_ms / 1000, self._give_up, pull)
            if (
                self._store.state.end_offsets.get(pull.key, 0) > pull.offset
            ):  # appended before this pull, so no event will follow
                self._try_when_confirmed([pull.key], self._store.log_end)

    def _try(self, pull: _Pull) -> bool:
        """Answer a pull if there are messages or an error; return whether it no longer waits."""
        if pull.group and self._store.state.parts.groups.is_paused(pull.group):
            return False
        if not pull.caller.is_writable:
            self._forget(pull)
            pull.caller.on_writable(lambda: self._try_again(pull))
            return True
        try:
            found = self._read(pull)
        except LiteMQError as error:
            self._fail(pull, error)
            return True
        if found is None:
            self._forget(pull)
            waiting = self._cold.get(pull.caller)
            if waiting is None:
                self._cold[pull.caller] = deque([pull])
                self._read_next(pull.caller)
            else:
                waiting.append(pull)
            return True
        if isinstance(found, ScanResult):
            return self._take(pull, found)
        if not found:
            return False
        return self._answer_part(pull, found) if pull.in_parts else self._answer(pull, found)

    def _read(self, pull: _Pull) -> bytes | memoryview | ScanResult | None:
        if pull.wanted is None:
            return pull.queues.read_if_hot(pull.key, pull.offset, pull.max_messages, pull.max_bytes)
        return scan_if_hot(pull.queues, _make_scan(pull, pull.wanted))

    def _take(self, pull: _Pull, scanned: ScanResult) -> bool:
        """Continue a pull after the scan; return whether it no longer waits."""
        moved = scanned.next_offset > pull.offset
        pull.offset = scanned.next_offset
        if scanned.records and pull.in_parts:
            return self._answer_part(pull, scanned.records)
        if scanned.records or (moved and not scanned.at_end):
            self._answer(pull, scanned.records)
        elif scanned.error is not None:
            self._fail(pull, scanned.error)
        else:
            return False
        return True

    def _try_again(self, pull: _Pull) -> None:
        """Try a pull whose caller has read its answers; if there is no message, answer it so."""
        if not self._try(pull):
            self._answer(pull, b"")

    def _read_next(self, caller: Caller) -> None:
        """Read for the first pull of a caller, once the caller reads its answers."""
        waiting = self._cold.get(caller)
        if waiting is None:
            return  # the caller is gone
        if not waiting:
            del self._cold[caller]
        elif not caller.is_writable:
            caller.on_writable(lambda: self._read_next(caller))
        else:
            task = self._loop.create_task(self._read_cold(waiting.popleft()))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _read_cold(self, pull: _Pull) -> None:
        try:
            if pull.wanted is None:
                self._answer(pull, await pull.queues.pull(pull.key, pull.offset, pull.max_messages, pull.max_bytes))
            else:
                request = _make_scan(pull, pull.wanted)
                scanned = await self._loop.run_in_executor(self._scanning, scan, pull.queues, request)
                if not self._take(pull, scanned):
                    self._answer(pull, b"")  # the reader asks again, and waits then
        except LiteMQError as error:
            self._fail(pull, error)
        finally:
            self._read_next(pull.caller)

    def _answer(self, pull: _Pull, records: bytes | memoryview) -> bool:
        """Answer a pull, which then no longer waits: return ``True``."""
        self._forget(pull)
        next_offset = pull.offset
        if records and pull.group:
            extent = find_extent(records)
            records = self._visible(pull, records, extent)
            next_offset = max(next_offset, extent.last + 1)
        answer = PullAnswer(next_offset=next_offset, range=offset_range(self._store, pull.key))
        pull.caller.answer(pull.frame, answer.SerializeToString(), records)
        return True

    def _answer_part(self, pull: _Pull, records: bytes | memoryview) -> bool:
        """Answer a pull in part, and let it wait for more, unless it has all it asked for.

        Return whether it no longer waits. It also ends if it has not read all readable messages:
        no event would follow for the rest.
        """
        extent = find_extent(records)
        offset = max(pull.offset, extent.last + 1)
        messages, size = pull.max_messages - extent.size, pull.max_bytes - len(records)
        if messages <= 0 or size <= 0 or offset < pull.queues.readable_end(pull.key):
            return self._answer(pull, records)
        visible = self._visible(pull, records, extent) if pull.group else records
        pull.offset, pull.max_messages, pull.max_bytes = offset, messages, size
        is_plain = visible is records and pull.wanted is None  # the next part continues after the last record
        header = b"" if is_plain else PullAnswer(next_offset=offset).SerializeToString()
        pull.caller.answer(pull.frame, header, visible, more=True)
        return False

    def _visible(self, pull: _Pull, records: bytes | memoryview, extent: Extent) -> bytes | memoryview:
        """Return the records that the group may see."""
        topics, key = self._store.state.topics, pull.key
        topic = topics[key.topic_id]
        if not topic.queues:  # a retry queue: its queue id is its topic's id
            topic = topics[key.queue_id]
        return visible_to(pull.group, self._store, topic, key, records, extent, self._clock.wall_ms())

    def _fail(self, pull: _Pull, error: LiteMQError) -> None:
        self._forget(pull)
        if isinstance(error, CorruptStoreError):
            if self._store.is_replicated:
                # Another replica has the record. The reader asks again, for the repaired one.
                self._loop.call_later(_REPAIR_S, self._answer, pull, b"")
                return
            # A damaged record is never served: the reader gets the error, and continues after it.
            _LOG.error("the message at offset %d of queue %d cannot be read: %s", pull.offset, pull.key.queue_id, error)
            answer = PullAnswer(
                next_offset=pull.offset + 1, range=offset_range(self._store, pull.key), damaged=str(error)
            )
            pull.caller.answer(pull.frame, answer.SerializeToString())
            return
        start_offset = self._store.state.start_offsets.get(pull.key, 0)
        if isinstance(error, OffsetOutOfRangeError) and pull.offset < start_offset:
            error = OffsetExpiredError(
                f"offsets {pull.offset} … {start_offset - 1} of queue {pull.key.queue_id} are gone: retention deleted "
                "them"
            )
        pull.caller.refuse(pull.frame, error)

    def _give_up(self, pull: _Pull) -> None:
        """Answer a pull whose wait time is over: no messages."""
        self._answer(pull, b"")

    def _forget(self, pull: _Pull) -> None:
        if pull.timer is None:
            return  # it does not wait
        pull.timer.cancel()
        pull.timer = None
        waiting = self._waiting.get(pull.key)
        if waiting is not None:
            waiting.pop(pull, None)
            if not waiting:
                del self._waiting[pull.key]
        caller_pulls = self._caller_pulls.get(pull.caller)
        if caller_pulls is not None:
            caller_pulls.pop(pull, None)
            if not caller_pulls:
                del self._caller_pulls[pull.caller]

    def on_append(self, keys: list[QueueKey], end: int) -> None:
        waited_for = [key for key in keys if key in self._waiting and not self._try_received(key)]
        if waited_for:
            self._try_when_confirmed(waited_for, end)

    def _try_received(self, key: QueueKey) -> bool:
        """Try the pulls that may read the queue's messages before they are confirmed.

        Return whether no pull waits for the confirmation.
        """
        if not self._store.state.shows_received(key):
            return False
        for pull in list(self._waiting.get(key, ())):
            if pull.group:
                self._try(pull)
        return all(pull.group for pull in self._waiting.get(key, ()))

    def _try_when_confirmed(self, keys: list[QueueKey], end: int) -> None:
        def confirmed(failure: LiteMQError | None) -> None:
            if failure is None:
                for key in keys:
                    for pull in list(self._waiting.get(key, ())):
                        self._try(pull)

        self._store.when_confirmed(end, confirmed)

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:  # noqa: ARG002
        self.on_append([key], end)

    def on_group_changed(self, group: str) -> None:
        for pulls in list(self._waiting.values()):
            for pull in [pull for pull in pulls if pull.group == group]:
                self._try(pull)

    def on_owner_lost(self, key: QueueKey, generation: int) -> None:
        # The new owner reads the messages that the former one waits for.
        for pull in list(self._waiting.get(key, ())):
            if pull.generation == generation:
                self._fail(pull, NotGroupMemberError(f"queue {key.queue_id} has another owner: join again"))

    def caller_gone(self, caller: Caller) -> None:
        """Drop the pulls of ``caller``, whose connection has ended."""
        for pull in list(self._caller_pulls.get(caller, ())):
            self._forget(pull)
        self._cold.pop(caller, None)

    def close(self) -> None:
        """Answer all waiting pulls: no messages."""
        for pulls in list(self._waiting.values()):
            for pull in list(pulls):
                self._answer(pull, b"")
        self._scanning.shutdown(cancel_futures=True)  # a scan must not read a closed store


def _make_scan(pull: _Pull, wanted: Filter) -> Scan:
    return Scan(pull.key, pull.offset, wanted, pull.max_messages, pull.max_bytes)
