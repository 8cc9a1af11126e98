"""Settlements: leased messages are acknowledged, returned, retried later, given up as dead letters,
or kept for longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from litemq.broker.dead_letters.writing import DeadDelivery, read_log_offset
from litemq.broker.delivery.availability import QueueAvailability
from litemq.broker.delivery.tick_record import TickRecord
from litemq.broker.delivery.topic_availability import TopicAvailability
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.deferred_answers import answer_when_safe
from litemq.errors import InvalidArgumentError, LeaseLostError, LiteMQError, OffsetOutOfRangeError
from litemq.errors.detached import detached
from litemq.format.offset_runs import Run, unpack_runs
from litemq.net.frame import Frame
from litemq.proto.control_pb2 import TryFailed
from litemq.proto.wire_pb2 import ExtendRequest, FailedTry, Leased, SettleAnswer, SettleRequest, Unsettled
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.leases import Lease
from litemq.storage.store import QueueReads, Store
from litemq.types import MAX_DELAY_MS, DeadReason

__all__ = ["Extension", "LeaseChange", "Settlement"]

MAX_OFFSETS: Final = 100_000  # of one request
_MAX_FAILED: Final = 10_000
_LOST: Final = "the lease is lost: the message has been settled or leased to another consumer"

# A retry is a copy of the record, so it needs the record.
_NOT_IN_LOG: Final = (
    ". A message that retention deleted, or that only an archive has, cannot be retried: acknowledge it, or send it "
    "again"
)
_NOTHING_THERE: Final = OffsetOutOfRangeError("there is no confirmed message at this offset")

Record = bytes | memoryview
Watched = list[tuple[QueueAvailability, Lease]]  # leases whose end needs an alarm


class LeaseChange:
    """A request that changes leases: a settlement or an extension."""

    def __init__(self, caller: Caller, frame: Frame, group: str) -> None:
        self.caller = caller
        self.frame = frame
        self.group = group
        self.records: dict[
            tuple[QueueKey, int], Record | LiteMQError
        ] = {}  # that are needed, or the error of reading them
        self._unsettled: list[Unsettled] = []
        self._runs: list[tuple[Leased, QueueKey, list[Run]]] = []

    def needed(self, topic: TopicAvailability) -> list[tuple[QueueKey, int]]:
        """Return the records that ``decide`` needs. Raise if the request is invalid."""
        raise NotImplementedError

    def read_hot(self, queues: QueueReads, needed: list[tuple[QueueKey, int]]) -> list[tuple[QueueKey, int]]:
        """Read the needed records that are in memory; return the others."""
        cold = []
        for key, offset in needed:
            try:
                record = queues.read_if_hot(key, offset, 1)
            except LiteMQError as error:
                self.records[key, offset] = detached(error)
            else:
                if record is None:
                    cold.append((key, offset))
                else:
                    self.records[key, offset] = record or _NOTHING_THERE
        return cold

    async def read_cold(self, queues: QueueReads, needed: list[tuple[QueueKey, int]]) -> None:
        """Read needed records from the disk."""
        for key, offset in needed:
            try:
                self.records[key, offset] = await queues.pull(key, offset, 1) or _NOTHING_THERE
            except LiteMQError as error:
                self.records[key, offset] = detached(error)

    def decide(self, topic: TopicAvailability, tick: TickRecord, now: int) -> Watched:
        """Apply the request; return the leases that expire at another time now."""
        raise NotImplementedError

    def answer(self, store: Store) -> None:
        """Answer the request when its effect is durable."""
        raise NotImplementedError

    def _unpack(self, topic: TopicAvailability, leases: Iterable[Leased]) -> None:
        """Read the offsets of ``leases``, all or none."""
        self._runs = [
            (leased, topic.queue_key(leased.queue_id, is_retry=leased.is_retry), unpack_runs(leased.offsets))
            for leased in leases
        ]
        count = sum(end - begin for _, _, runs in self._runs for begin, end in runs)
        if count > MAX_OFFSETS:
            raise InvalidArgumentError(f"{count} offsets in one request: settle at most {MAX_OFFSETS}")

    def _leased(self, topic: TopicAvailability) -> Iterator[tuple[Leased, QueueAvailability, Run]]:
        for leased, key, runs in self._runs:
            queue = topic.queue(key)
            for run in runs:
                yield leased, queue, run

    def _report_lost(self, leased: Leased | FailedTry, runs: list[Run]) -> None:
        for begin, end in runs:
            self._unsettled += [
                self._to_wire(leased, offset, LeaseLostError.code, _LOST) for offset in range(begin, end)
            ]

    def _to_wire(self, leased: Leased | FailedTry, offset: int, code: int, message: str) -> Unsettled:
        return Unsettled(queue_id=leased.queue_id, is_retry=leased.is_retry, offset=offset, code=code, message=message)

    def _answered(self) -> bytes:
        return SettleAnswer(unsettled=self._unsettled).SerializeToString()


class Settlement(LeaseChange):
    """SETTLE: messages are acknowledged, or a try has failed."""

    def __init__(self, caller: Caller, frame: Frame, request: SettleRequest) -> None:
        super().__init__(caller, frame, request.group)
        self._request = request

    @property
    def assigned(self) -> set[tuple[int, bool]]:
        """Queue id and ``is_retry`` of the queues that the caller must own: it names no lease."""
        acked = {(leased.queue_id, leased.is_retry) for leased in self._request.acked if not leased.token}
        return acked | {(failed.queue_id, failed.is_retry) for failed in self._request.failed if not failed.token}

    def needed(self, topic: TopicAvailability) -> list[tuple[QueueKey, int]]:
        self._unpack(topic, self._request.acked)
        if len(self._request.failed) > _MAX_FAILED:
            raise InvalidArgumentError(
                f"{len(self._request.failed)} failed tries in one request: send at most {_MAX_FAILED}"
            )
        for failed in self._request.failed:
            if not 0 <= failed.delay_ms <= MAX_DELAY_MS:
                raise InvalidArgumentError(f"delay_ms={failed.delay_ms}: choose 0 … {MAX_DELAY_MS}")
        return [
            (topic.queue_key(failed.queue_id, is_retry=failed.is_retry), failed.offset)
            for failed in self._request.failed
        ]

    def decide(self, topic: TopicAvailability, tick: TickRecord, now: int) -> Watched:
        for leased, queue, (begin, end) in self._leased(topic):
            if not leased.token:
                continue  # the committed offset covers it
            mine, lost = queue.settle(begin, end, leased.token)
            for lease in mine:
                tick.done(queue.key, lease.begin, lease.end)
                topic.settled(leased.token, queue.key, lease.begin, lease.end)
            if lost:
                self._report_lost(leased, topic.not_settled(leased.token, queue.key, lost))
        for failed in self._request.failed:
            self._fail(topic, failed, tick, now)
        return []

    def _fail(self, topic: TopicAvailability, failed: FailedTry, tick: TickRecord, now: int) -> None:
        key, offset = topic.queue_key(failed.queue_id, is_retry=failed.is_retry), failed.offset
        record = self.records[key, offset]
        if isinstance(record, LiteMQError):
            hint = _NOT_IN_LOG if isinstance(record, OffsetOutOfRangeError) else ""
            self._unsettled.append(self._to_wire(failed, offset, record.code, str(record) + hint))
            return
        queue = topic.queue(key)
        if failed.token:
            mine, lost = queue.settle(offset, offset + 1, failed.token)
            if lost:
                self._report_lost(failed, topic.not_settled(failed.token, key, lost, failed=True))
                return
            topic.settled(failed.token, key, offset, offset + 1, failed=True)
            count = mine[0].tries
        elif queue.is_done(offset):
            return  # repeated, because the answer was lost
        else:
            queue.settle_unleased(offset)
            count = max(1, failed.count)
        if failed.is_final or (count > failed.max_retries and not failed.is_untried):
            tick.dead.append(
                DeadDelivery(
                    record,
                    topic.topic_id,
                    key,
                    offset,
                    self.group,
                    count,
                    _reason(failed),
                    failed.detail,
                    failed.error,
                    failed.stack,
                    failed.consumer or self.caller.client_id,
                )
            )
        elif failed.token and not failed.delay_ms:
            if failed.is_untried:
                returned = Lease(offset, offset + 1, 0, 0, count - 1)
                tick.granted(key, [returned])  # without a holder and a try
                queue.give_back(returned)
            else:
                tick.released(key, offset, offset + 1)
                queue.put_back(offset, offset + 1)
        else:
            tick.failed(
                TryFailed(
                    topic_id=key.topic_id,
                    queue_id=key.queue_id,
                    queue_offset=offset,
                    predecessor=read_log_offset(record),
                    due=now + failed.delay_ms + bool(failed.delay_ms),  # no wait ends early
                    count=count,
                    tried_topic_id=topic.topic_id,
                    retry_topic_id=topic.retry_topic().topic_id,
                ),
                record,
            )

    def answer(self, store: Store) -> None:
        answer_when_safe(store, self.caller, self.frame, store.log_end, self._answered())


class Extension(LeaseChange):
    """EXTEND: leases last longer.

    It is answered at once, because losing an extension only allows a repeat.
    """

    def __init__(self, caller: Caller, frame: Frame, request: ExtendRequest) -> None:
        super().__init__(caller, frame, request.group)
        self._request = request

    def needed(self, topic: TopicAvailability) -> list[tuple[QueueKey, int]]:
        self._unpack(topic, self._request.leases)
        return []

    def decide(self, topic: TopicAvailability, tick: TickRecord, now: int) -> Watched:
        watched: Watched = []
        lease_ms = self._request.lease_ms
        for leased, queue, (begin, end) in self._leased(topic):
            extended = queue.extend(begin, end, leased.token, now + lease_ms + 1, lease_ms)
            tick.granted(queue.key, extended.logged)
            watched += [(queue, lease) for lease in extended.kept]
            self._report_lost(leased, extended.lost)
        return watched

    def answer(self, store: Store) -> None:  # noqa: ARG002
        self.caller.answer(self.frame, self._answered())


def _reason(failed: FailedTry) -> DeadReason:
    try:
        return DeadReason(failed.reason)
    except ValueError:
        return DeadReason.CONSUME_ERROR if failed.is_final else DeadReason.MAX_RETRY
