"""Tick batching: the sends that arrive in one tick of the event loop become one append per topic.

The store needs about the same time for a batch of one record as for one of sixty. So the broker
joins the requests of all connections. Each request gets its own answer, and an invalid one is
refused alone.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import accumulate, chain, repeat
from typing import Final

import numpy as np

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.fair_queue import FREE_BYTES, FairQueue
from litemq.broker.admission.quotas import Quotas
from litemq.broker.admission.replicas import check_unreplicated
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.sending.answers import SendAnswers, list_held_offsets, refuse_all
from litemq.broker.sending.deduplication import Deduplication
from litemq.broker.sending.send_tick import Request, SendTick
from litemq.errors import (
    BacklogFullError,
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    RecordFormatError,
    StoreFailedError,
)
from litemq.errors.detached import detached
from litemq.storage.state import QueueKey
from litemq.storage.store import MAX_SENDS, Sent
from litemq.types import Durability

__all__ = ["TickBatcher"]

_RETRY_AFTER_MS: Final = 20
_WORTH_COLUMNS: Final = 16  # requests of a tick: fewer are checked one by one
_DISK: Final = int(Durability.DISK)
_LOG = logging.getLogger(__name__)


class TickBatcher:
    """Appends the sends of all callers, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext, quotas: Quotas, backlog: Backlog) -> None:
        self._store = context.store
        self._clock = context.clock
        self._events = context.events
        self._backlog = backlog
        self._fair_queue = FairQueue(context.limits.max_unconfirmed_bytes)
        self._max_unreplicated_bytes = context.limits.max_unreplicated_bytes
        self._is_behind = False  # requests wait for the disk
        self._quotas = quotas
        self._deduplication = Deduplication(context)
        self._answers = SendAnswers(context.store)
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[int, list[Request]] = {}
        self._end = 0  # log offset after the last append

    def topic_requests(self, topic_id: int) -> list[Request]:
        """Return the list of this tick's requests for ``topic_id``, to which the caller appends.

        Each request is answered once its records are durable at their level. Requests of one caller
        keep their order.
        """
        gathered = self._gathered.get(topic_id)
        if gathered is None:
            if not self._gathered:
                self._loop.call_soon(self._append_all)
            gathered = self._gathered[topic_id] = []
        return gathered

    def _append_all(self) -> None:
        gathered, self._gathered = self._gathered, {}
        try:
            check_unreplicated(self._store, self._max_unreplicated_bytes)
        except OverloadedError as error:
            for requests in gathered.values():
                refuse_all(requests, error)
            return
        size = sum([len(frame[4]) for requests in gathered.values() for _, frame, _ in requests])
        unflushed = max(0, self._end - self._store.flushed_offset)
        if unflushed + size > FREE_BYTES or not self._fair_queue.is_empty:
            gathered = self._admit(gathered, unflushed)
        self._append_gathered(gathered)
        if not self._fair_queue.is_empty and not self._is_behind:
            self._is_behind = True
            self._store.when_flushed(self._end, self._on_flushed)

    def _append_gathered(self, gathered: dict[int, list[Request]]) -> None:
        for topic_id, requests in gathered.items():
            try:
                self._append_topic(topic_id, requests)
            except LiteMQError as error:  # no request caused it, so all of them fail
                refuse_all(requests, error)
            except Exception:  # noqa: BLE001  every caller waits for an answer
                _LOG.exception("an append failed")
                refuse_all(
                    requests, StoreFailedError("the append failed, or its outcome is unknown: see the broker's log")
                )

    # While the disk is behind ---------------------------------------------------------------------

    def _admit(self, gathered: dict[int, list[Request]], unflushed: int) -> dict[int, list[Request]]:
        """Return the requests that the broker appends now.

        Others wait in the fair queue; the rest is refused.
        """
        now = self._loop.time()
        fair_queue = self._fair_queue
        admitted: dict[int, list[Request]] = {}
        for topic_id, requests in gathered.items():
            for caller, frame, queue_id in requests:
                size = len(frame[4])
                if fair_queue.may_pass(caller, size, unflushed, now):
                    unflushed += size
                    admitted.setdefault(topic_id, []).append((caller, frame, queue_id))
                elif not fair_queue.join((caller, frame, topic_id, queue_id)):
                    caller.refuse(frame, self._overloaded(unflushed))
        return admitted

    def _overloaded(self, unflushed: int) -> OverloadedError:
        waiting = (unflushed + self._fair_queue.size) / (1 << 20)
        return OverloadedError(
            f"{waiting:.0f} MiB are waiting for the disk: retry in {_RETRY_AFTER_MS} ms", _RETRY_AFTER_MS
        )

    def _on_flushed(self, failure: LiteMQError | None) -> None:
        # In a tick of its own: the next append may be flushed at once, which would recurse.
        self._loop.call_soon(self._caught_up, failure)

    def _caught_up(self, failure: LiteMQError | None) -> None:
        """Append the next requests of the fair queue. If the disk has failed, refuse them all."""
        if failure is not None:
            for caller, frame, _, _ in self._fair_queue.clear():
                caller.refuse(frame, failure)
        gathered: dict[int, list[Request]] = {}
        for caller, frame, topic_id, queue_id in self._fair_queue.take_next(self._loop.time()):
            gathered.setdefault(topic_id, []).append((caller, frame, queue_id))
        self._append_gathered(gathered)
        self._is_behind = not self._fair_queue.is_empty
        if self._is_behind:
            self._store.when_flushed(self._end, self._on_flushed)

    def caller_gone(self, caller: Caller) -> None:
        """Drop the waiting requests of ``caller``, whose connection has ended."""
        self._fair_queue.forget(caller)

    def close(self) -> None:
        """Refuse the requests that wait for the disk."""
        for caller, frame, _, _ in self._fair_queue.clear():
            caller.refuse(frame, OverloadedError("the broker is stopping: retry", _RETRY_AFTER_MS))

    # Appending ------------------------------------------------------------------------------------

    def _append_topic(self, topic_id: int, requests: list[Request]) -> None:
        if len(requests) == 1 and not self._quotas.is_on and self._append_one(topic_id, requests[0]):
            return
        requests = self._within_backlog(topic_id, requests)
        tick = None
        if len(requests) >= _WORTH_COLUMNS and not self._quotas.is_on:
            tick = self._deduplication.check_uniform(topic_id, requests)
        if tick is None:
            tick = self._check(topic_id, requests, self._quotas if self._quotas.is_on else None)
        if not tick.frames:
            return
        try:
            self._append(topic_id, tick)
        except (RecordFormatError, InvalidArgumentError) as error:
            if len(tick.frames) == 1:
                tick.callers[0].refuse(tick.frames[0], error)
                return
            # One request is invalid. A refused request leaves a gap in its sequence, so each is
            # checked again.
            for request in zip(tick.callers, tick.frames, tick.queue_ids, strict=True):
                self._append_alone(topic_id, request)

    def _append_one(self, topic_id: int, request: Request) -> bool:
        """Append the only request of a tick. Return ``False``, without a change, if it is unusual.

        With few producers, nearly every tick is such.
        """
        topic = self._store.state.topics.get(topic_id)
        caller, frame, queue_id = request
        if topic is None or topic.has_priorities or topic.backlog_dead_letters:
            return False
        batch = frame[4]
        claims = self._deduplication.check_one(batch, topic_id, queue_id)
        if claims is None:
            return False
        count, level = claims
        try:
            self._backlog.check(topic, queue_id)
            sent = self._store.append_sends(bytearray(batch), topic_id, [queue_id] * count, is_wanted=level >= _DISK)
        except (BacklogFullError, RecordFormatError, InvalidArgumentError) as error:
            caller.refuse(frame, detached(error))
            return True
        self._end = sent.end
        self._answers.answer_one(topic_id, caller, frame, level, sent)
        self._events.on_append([QueueKey(topic_id, queue_id)], sent.end)
        return True

    def _within_backlog(self, topic_id: int, requests: list[Request]) -> list[Request]:
        """Return the requests whose queue is not full, and refuse the others."""
        topic = self._store.state.topics.get(topic_id)
        if topic is None:
            return requests
        full: dict[int, BacklogFullError] = {}
        for queue_id in {request[2] for request in requests}:
            try:
                self._backlog.check(topic, queue_id)
            except BacklogFullError as error:
                full[queue_id] = detached(error)
        if not full:
            return requests
        for caller, frame, queue_id in requests:
            if queue_id in full:
                caller.refuse(frame, full[queue_id])
        return [request for request in requests if request[2] not in full]

    def _append_alone(self, topic_id: int, request: Request) -> None:
        tick = self._check(topic_id, [request], None)
        if tick.frames:
            try:
                self._append(topic_id, tick)
            except (RecordFormatError, InvalidArgumentError) as error:
                request[0].refuse(request[1], error)

    def _check(self, topic_id: int, requests: list[Request], quotas: Quotas | None) -> SendTick:
        """Check ``requests`` one by one. Answer known ones; defer repeated ones by a tick."""
        tick = self._deduplication.check(topic_id, requests, quotas)
        if len(tick.frames) == len(requests):  # all are new, as nearly always
            return tick
        for caller, frame, error in tick.refused:
            caller.refuse(frame, error)
        for known in tick.known:
            self._answers.answer_known(topic_id, known)
        if tick.repeated:
            self.topic_requests(topic_id).extend(tick.repeated)
        return tick

    def _append(self, topic_id: int, tick: SendTick) -> None:
        joined = bytearray().join(tick.batches) if tick.joined is None else tick.joined
        queue_ids, counts = tick.queue_ids, tick.counts
        records = sum(counts)
        is_plain = records == len(counts)
        if records <= MAX_SENDS and not tick.delayed:
            record_queues = queue_ids if is_plain else list(chain.from_iterable(map(repeat, queue_ids, counts)))
            is_wanted = max(tick.levels) >= _DISK
            sent = self._store.append_sends(joined, topic_id, record_queues, is_wanted=is_wanted)
        else:
            sent = self._append_many(topic_id, tick, joined)
        self._end = sent.end
        all_offsets = sent.queue_offsets
        offsets = all_offsets if is_plain else [all_offsets[at] for at in accumulate(counts[:-1], initial=0)]
        if tick.delayed:
            offsets = list_held_offsets(tick, offsets, all_offsets, sent.store_timestamp)
            self._events.on_timer_added()
        self._answers.answer(topic_id, tick, offsets, sent)
        queues = set(queue_ids)
        self._backlog.dead_letter_excess(self._store.state.topics[topic_id], queues, joined)
        self._events.on_append([QueueKey(topic_id, queue_id) for queue_id in queues], sent.end)

    def _append_many(self, topic_id: int, tick: SendTick, joined: bytearray) -> Sent:
        held_after = self._clock.wall_ms() if tick.delayed else None
        if len(set(tick.queue_ids)) == 1:
            appended = self._store.append(joined, topic_id, tick.queue_ids[0], held_after=held_after)
        else:
            record_queues = np.repeat(tick.queue_ids, tick.counts)
            appended = self._store.append(joined, topic_id, record_queues, held_after=held_after)
        return appended.sent
