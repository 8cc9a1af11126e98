"""The lessor: grants leases, takes settlements, and returns messages whose lease has expired.

All requests of a group in one event-loop tick are decided together and become one record:
settlements first, then grants. A grant is answered at once, because losing one only allows a
repeat. A settlement is answered when its record is confirmed. A request that finds no message waits
until one is available, or until its wait time ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from typing import Final

from litemq.broker.dead_letters.writing import dead_letter_records
from litemq.broker.delivery.availability import QueueAvailability
from litemq.broker.delivery.granting import Grant, GrantRequest
from litemq.broker.delivery.read_ahead import ReadAhead, ReadKey
from litemq.broker.delivery.retry_scheduler import RetryScheduler
from litemq.broker.delivery.settling import LeaseChange
from litemq.broker.delivery.tick_record import TickRecord
from litemq.broker.delivery.topic_availability import TopicAvailability
from litemq.broker.delivery.waiting_requests import GroupTick, LeasedTopic, WaitingLease
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.errors import InvalidArgumentError, LiteMQError, OverloadedError, StorageError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import LeaseAnswer, LeaseRequest
from litemq.storage.state import QueueKey, Topic
from litemq.storage.state.delivery.leases import Lease
from litemq.types import check_name

__all__ = ["Lessor"]

_RETRY_AFTER_MS: Final = 100
_LOG = logging.getLogger(__name__)

LeaseEnd = tuple[TopicAvailability, QueueAvailability, int]


def _new_token() -> int:
    return random.getrandbits(64) or 1


class Lessor(QueueListener):
    """The leases of all groups, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext, retry_scheduler: RetryScheduler) -> None:
        self._store = context.store
        self._limits = context.limits
        self._clock = context.clock
        self._log_clock = context.store.log_clock
        self._alarms = context.log_alarms
        self._retry_scheduler = retry_scheduler
        self._loop = asyncio.get_running_loop()
        self._read_ahead = ReadAhead(context.store.for_consumers, self)
        self._topics: dict[tuple[str, int], LeasedTopic] = {}
        self._readers: dict[int, set[LeasedTopic]] = defaultdict(set)  # by topic
        self._ticks: dict[str, GroupTick] = {}
        self._caller_waits: dict[Caller, dict[WaitingLease, LeasedTopic]] = defaultdict(dict)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of lease requests that wait for messages."""
        return sum(map(len, self._caller_waits.values()))

    # Requests -------------------------------------------------------------------------------------

    def lease(self, caller: Caller, frame: Frame, request: LeaseRequest, topic: Topic) -> None:
        """Take a lease request.

        It is answered when there are messages, or when its wait time ends.
        """
        limits = self._limits
        if len(self._caller_waits.get(caller, ())) >= limits.max_waiting_pulls:
            raise OverloadedError(
                f"this client has {limits.max_waiting_pulls} waiting lease requests: wait for their answers first",
                _RETRY_AFTER_MS,
            )
        if request.max_messages < 1 or not limits.min_lease_ms <= request.lease_ms <= limits.max_lease_ms:
            raise InvalidArgumentError(
                f"max_messages={request.max_messages}, lease_ms={request.lease_ms}: choose at least 1 message and "
                f"{limits.min_lease_ms} … {limits.max_lease_ms} ms"
            )
        waiting = WaitingLease(caller, frame, request, limits)
        leased_topic = self._topic(request.group, topic)
        if not leased_topic.has_begun:
            leased_topic.has_begun = True
            self._begin(request, leased_topic.availability)
        leased_topic.waiting[waiting] = None
        self._caller_waits[caller][waiting] = leased_topic
        self._next_tick(leased_topic)

    def _begin(self, request: LeaseRequest, availability: TopicAvailability) -> None:
        """Commit the first offset, oldest or end, in each queue that is new to the group."""
        state = self._store.state
        fresh = [
            key
            for key in availability.queue_keys()
            if (request.group, key) not in state.group_offsets and key.topic_id == availability.topic_id
        ]
        if fresh:
            begins = state.end_offsets if request.from_latest else state.start_offsets
            self._store.commit_offsets(request.group, [(key, begins.get(key, 0)) for key in fresh])

    def settle(self, settlement: LeaseChange, topic: Topic) -> None:
        """Take a settlement or an extension, for the next tick of its group."""
        leased_topic = self._topic(settlement.group, topic)
        cold = settlement.read_hot(self._store.for_consumers, settlement.needed(leased_topic.availability))
        if not cold:
            self._next_tick(leased_topic).settlements.append((leased_topic, settlement))
            return
        task = self._loop.create_task(self._settle_cold(leased_topic, settlement, cold))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle_cold(
        self, leased_topic: LeasedTopic, settlement: LeaseChange, cold: list[tuple[QueueKey, int]]
    ) -> None:
        """Read the records that the settlement needs from the disk first."""
        await settlement.read_cold(self._store.for_consumers, cold)
        self._next_tick(leased_topic).settlements.append((leased_topic, settlement))

    def _topic(self, group: str, topic: Topic) -> LeasedTopic:
        leased_topic = self._topics.get((group, topic.topic_id))
        if leased_topic is None:
            check_name(group, "group")
            leased_topic = self._topics[group, topic.topic_id] = LeasedTopic(
                TopicAvailability(self._store, self._read_ahead, group, topic)
            )
            self._readers[topic.topic_id].add(leased_topic)
        return leased_topic

    def _next_tick(self, leased_topic: LeasedTopic) -> GroupTick:
        """Return the next tick of the group, which will serve ``leased_topic``."""
        group = leased_topic.availability.group
        tick = self._ticks.get(group)
        if tick is None:
            if not self._ticks:
                self._loop.call_soon(self._decide_all)
            tick = self._ticks[group] = GroupTick()
        tick.topics[leased_topic] = None
        return tick

    # Deciding -------------------------------------------------------------------------------------

    def _decide_all(self) -> None:
        ticks, self._ticks = self._ticks, {}
        if self._closed:
            return
        self._alarms.ring_due()  # messages of leases that have expired are available to these requests
        for group, tick in ticks.items():
            try:
                self._decide(group, tick)
            except LiteMQError as error:
                self._failed(tick, error)
            except Exception:  # noqa: BLE001  every caller waits for an answer
                _LOG.exception("a tick of the leases of group %r failed", group)
                self._failed(tick, StorageError("the broker failed to handle the request: see the broker's log"))

    def _failed(self, tick: GroupTick, error: LiteMQError) -> None:
        """The append failed: refuse all requests of the tick and discard its decisions."""
        for _, settlement in tick.settlements:
            settlement.caller.refuse(settlement.frame, error)
        for leased_topic in tick.topics:
            for waiting in list(leased_topic.waiting):
                self._forget(waiting)
                waiting.caller.refuse(waiting.frame, error)
            leased_topic.availability.forget()

    def _decide(self, group: str, tick: GroupTick) -> None:
        now = self._log_clock.wall_ms()
        confirmed = self._store.confirm_offset  # the grants may see more, but not less
        record = TickRecord(group)
        for leased_topic in tick.topics:
            for queue, lease in leased_topic.availability.refresh(now):
                self._watch(leased_topic.availability, queue, lease)
        for leased_topic, settlement in tick.settlements:
            for queue, lease in settlement.decide(leased_topic.availability, record, now):
                self._watch(leased_topic.availability, queue, lease)
        grants = [each for leased_topic in tick.topics for each in self._serve(leased_topic, record, now)]
        self._append(record)
        for failed in record.failures:
            self._retry_scheduler.wait(failed.predecessor, group, failed.due)
        for leased_topic in tick.topics:
            leased_topic.availability.recorded()
        for waiting, request, grant in grants:
            self._answer(waiting, request, grant)
        for leased_topic in tick.topics:
            self._keep_waiting(leased_topic, confirmed)
        for _, settlement in tick.settlements:
            settlement.answer(self._store)

    def _append(self, record: TickRecord) -> None:
        """Append the tick's record, and the dead letters that it decides.

        Retention drops the records before ``kept_from``, so a retry of one of them is a retry of a
        copy. The copy comes first: after a crash in between, the message is still leased.
        """
        with self._store.atomically():
            copies = record.copies_before(self._store.kept_from)
            if copies:
                offsets = self._store.append_placed([copy for _, copy in copies]).log_offsets.tolist()
                for (failed, _), offset in zip(copies, offsets, strict=True):
                    failed.predecessor = offset
            if record:
                self._store.append_control(record.control())
            if record.dead:
                self._store.append_placed(dead_letter_records(self._store, record.dead, self._clock.wall_ms()))

    def _serve(
        self, leased_topic: LeasedTopic, record: TickRecord, now: int
    ) -> list[tuple[WaitingLease, GrantRequest, Grant]]:
        """Grant messages to the waiting requests, in their order."""
        availability = leased_topic.availability
        served: list[tuple[WaitingLease, GrantRequest, Grant]] = []
        if self._store.state.parts.groups.is_paused(availability.group):
            return served
        in_flight = availability.in_flight
        alive_at = self._clock.wall_ms()
        for waiting in list(leased_topic.waiting):
            if not waiting.caller.is_writable:
                self._wait_until_writable(leased_topic, waiting)
                continue
            if leased_topic.unreported:
                self._forget(waiting)
                waiting.caller.refuse(waiting.frame, leased_topic.unreported.pop(0))
                continue
            limit = min(waiting.max_messages, self._limits.max_in_flight - in_flight)
            if limit <= 0:
                break
            asked = waiting.request
            # ``now`` is rounded down, and no lease may end early: hence one millisecond more.
            deadline = now + asked.lease_ms + 1
            request = GrantRequest(
                limit, waiting.max_bytes, asked.max_retries, _new_token(), deadline, alive_at, waiting.wanted
            )
            grant = availability.grant(request, record)
            if grant.counts or grant.error is not None:
                in_flight += len(grant.counts)
                served.append((waiting, request, grant))
                if grant.counts and grant.error is not None:
                    leased_topic.unreported.append(
                        grant.error
                    )  # an answer has messages or an error: the next one has the error
                for queue, lease in grant.leases:
                    self._watch(availability, queue, lease)
            elif grant.is_out_of_time:
                self._next_tick(leased_topic)  # other requests first
            elif waiting.wanted is None:
                break  # there are no messages for the others, either
        return served

    def _answer(self, waiting: WaitingLease, request: GrantRequest, grant: Grant) -> None:
        self._forget(waiting)
        if grant.error is not None and not grant.counts:
            waiting.caller.refuse(waiting.frame, grant.error)
            return
        answer = LeaseAnswer(token=request.token, deadline=request.deadline, counts=grant.counts)
        records = grant.pieces[0] if len(grant.pieces) == 1 else b"".join(grant.pieces)
        waiting.caller.answer(waiting.frame, answer.SerializeToString(), records)

    # Waiting --------------------------------------------------------------------------------------

    def _keep_waiting(self, leased_topic: LeasedTopic, confirmed: int) -> None:
        """Let requests without messages wait; answer those that do not wait, unless a read runs.

        ``confirmed`` is the offset that was confirmed before the messages were looked for.
        """
        if not leased_topic.waiting:
            return
        tick = self._ticks.get(leased_topic.availability.group)
        is_pending = leased_topic.availability.is_reading or (tick is not None and leased_topic in tick.topics)
        for waiting in list(leased_topic.waiting):
            if waiting.timer is None and waiting.wait_ms:
                waiting.timer = self._loop.call_later(waiting.wait_ms / 1000, self._give_up, waiting)
            elif waiting.timer is None and not is_pending:
                self._give_up(waiting)
        if (
            leased_topic.waiting
            and not is_pending
            and leased_topic.availability.has_unread
            and confirmed < self._store.log_end
        ):
            # Appended before this request, so no event will follow. It may be confirmed by now.
            self._look_when_confirmed(leased_topic, self._store.log_end)

    def _confirmed(self, leased_topic: LeasedTopic, failure: LiteMQError | None) -> None:
        if failure is None and leased_topic.waiting:
            self._next_tick(leased_topic)

    def _wait_until_writable(self, leased_topic: LeasedTopic, waiting: WaitingLease) -> None:
        """Serve the request again when its caller reads its answers."""
        self._forget(waiting)

        def resume() -> None:
            leased_topic.waiting[waiting] = None
            self._caller_waits[waiting.caller][waiting] = leased_topic
            self._next_tick(leased_topic)

        waiting.caller.on_writable(resume)

    def _give_up(self, waiting: WaitingLease) -> None:
        """Answer a request whose wait time is over: no messages."""
        self._forget(waiting)
        waiting.caller.answer(waiting.frame, b"")

    def _forget(self, waiting: WaitingLease) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
            waiting.timer = None
        caller_waits = self._caller_waits.get(waiting.caller)
        if caller_waits is not None:
            leased_topic = caller_waits.pop(waiting, None)
            if leased_topic is not None:
                leased_topic.waiting.pop(waiting, None)
            if not caller_waits:
                del self._caller_waits[waiting.caller]

    # Events ---------------------------------------------------------------------------------------

    def on_append(self, keys: list[QueueKey], end: int) -> None:
        for topic_id in {key.topic_id for key in keys}:
            for leased_topic in self._readers.get(topic_id, ()):
                self._look_when_readable(leased_topic, end)

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:
        leased_topic = self._topics.get((group, key.queue_id))  # the queue id of a retry queue is its topic's id
        if leased_topic is not None:
            self._look_when_readable(leased_topic, end)

    def _look_when_readable(self, leased_topic: LeasedTopic, end: int) -> None:
        if not self._store.state.shows_received(QueueKey(leased_topic.availability.topic_id, 0)):
            self._look_when_confirmed(leased_topic, end)
        elif leased_topic.waiting:
            self._next_tick(leased_topic)

    def _look_when_confirmed(self, leased_topic: LeasedTopic, end: int) -> None:
        if leased_topic.waiting:
            self._store.when_confirmed(end, lambda failure: self._confirmed(leased_topic, failure))

    def on_read(self, source: ReadKey) -> None:
        group, key = source
        for topic_id in key:  # its own topic, or, of a retry queue, the topic whose number the queue has
            leased_topic = self._topics.get((group, topic_id))
            if leased_topic is not None and leased_topic.waiting:
                self._next_tick(leased_topic)

    def _watch(self, availability: TopicAvailability, queue: QueueAvailability, lease: Lease) -> None:
        slot = queue.watch(lease)
        if slot is not None:
            self._alarms.at(slot, self._on_expired, (availability, queue, slot))

    def _on_expired(self, ends: list[LeaseEnd]) -> None:
        """Return the messages of leases that have expired and were not settled or extended."""
        now = self._log_clock.wall_ms()
        for availability, queue, slot in ends:
            if queue.end(slot, now):
                leased_topic = self._topics.get((availability.group, availability.topic_id))
                if leased_topic is not None and leased_topic.waiting:
                    self._next_tick(leased_topic)

    def on_group_changed(self, group: str) -> None:
        for (name, _), leased_topic in self._topics.items():
            if name == group:
                leased_topic.has_begun = False
                self._next_tick(leased_topic)

    def caller_gone(self, caller: Caller) -> None:
        """Drop the waiting requests of ``caller``, whose connection has ended."""
        for waiting in list(self._caller_waits.get(caller, ())):
            self._forget(waiting)

    def close(self) -> None:
        """Answer all waiting requests: no messages."""
        self._closed = True
        self._read_ahead.close()
        for task in self._tasks:
            task.cancel()
        for waits in list(self._caller_waits.values()):
            for waiting in list(waits):
                self._give_up(waiting)
