"""Leases: messages are given out one by one or many at a time, each for a while, and settled or taken back.

Everything that a group asks for in one turn of the event loop is decided together, and becomes one record: first what is settled, then what is
given out. Grants are told at once (losing one only allows a repeat), settlements once their record is safe. A request that finds nothing waits
until something comes, is given back, or its time is over.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from typing import Final

from litemq.broker.dead_letters.writing import dead_letter_records
from litemq.broker.delivery.availability import Stock
from litemq.broker.delivery.granting import Granted, Wish
from litemq.broker.delivery.read_ahead import Chunks
from litemq.broker.delivery.retry_scheduler import Retries
from litemq.broker.delivery.settling import Settlement
from litemq.broker.delivery.tick_record import Tick
from litemq.broker.delivery.topic_availability import TopicStock
from litemq.broker.delivery.waiting_requests import LeasedTopic, Turn, Want
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.errors import InvalidArgumentError, LiteMQError, OverloadedError, StorageError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import LeaseAnswer, LeaseRequest
from litemq.storage.state import QueueKey, TopicFacts
from litemq.storage.state.delivery.leases import Lease
from litemq.types import check_name

__all__ = ["Leasing"]

_RETRY_AFTER_MS: Final = 100
_LOG = logging.getLogger(__name__)

Ending = tuple[TopicStock, Stock, int]


def _new_token() -> int:
    return random.getrandbits(64) or 1


class Leasing(QueueListener):
    """The leases of all groups, on the event loop that is running when it is made."""

    def __init__(self, context: BrokerContext, retries: Retries) -> None:
        self._store = context.store
        self._limits = context.limits
        self._clock = context.clock
        self._alarms = context.alarms
        self._retries = retries
        self._loop = asyncio.get_running_loop()
        self._chunks = Chunks(context.store, self)
        self._topics: dict[tuple[str, int], LeasedTopic] = {}
        self._readers: dict[int, set[LeasedTopic]] = defaultdict(set)  # by topic
        self._turns: dict[str, Turn] = {}
        self._of_caller: dict[Caller, dict[Want, LeasedTopic]] = defaultdict(dict)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many requests wait for something to come."""
        return sum(map(len, self._of_caller.values()))

    # Requests -----------------------------------------------------------------------------------------------------------------

    def lease(self, caller: Caller, frame: Frame, request: LeaseRequest, topic: TopicFacts) -> None:
        """Take a request for messages; it is answered when there are some, or when it has waited for long enough."""
        limits = self._limits
        if len(self._of_caller.get(caller, ())) >= limits.max_waiting_pulls:
            raise OverloadedError(f"{limits.max_waiting_pulls} requests of this client wait already", _RETRY_AFTER_MS)
        if request.max_messages < 1 or not limits.min_lease_ms <= request.lease_ms <= limits.max_lease_ms:
            raise InvalidArgumentError(
                f"max_messages={request.max_messages}, lease_ms={request.lease_ms}: choose at least 1, "
                f"and {limits.min_lease_ms} … {limits.max_lease_ms}"
            )
        want = Want(caller, frame, request, limits)
        of_topic = self._topic(request.group, topic)
        if not of_topic.has_begun:
            of_topic.has_begun = True
            self._begin(request, of_topic.stock)
        of_topic.waiting[want] = None
        self._of_caller[caller][want] = of_topic
        self._turn(of_topic)

    def _begin(self, request: LeaseRequest, stock: TopicStock) -> None:
        """Where the group has never been, it begins: with the oldest message, or behind the latest."""
        state = self._store.state
        fresh = [key for key in stock.queues() if (request.group, key) not in state.group_offsets and key.topic_id == stock.topic_id]
        if fresh:
            begins = state.next if request.from_latest else state.least
            self._store.commit_offsets(request.group, [(key, begins.get(key, 0)) for key in fresh])

    def settle(self, settlement: Settlement, topic: TopicFacts) -> None:
        """Take a settlement or an extension; it is answered once it is safe."""
        of_topic = self._topic(settlement.group, topic)
        cold = settlement.read_hot(self._store, settlement.needed(of_topic.stock))
        if not cold:
            self._turn(of_topic).settlements.append((of_topic, settlement))
            return
        task = self._loop.create_task(self._settle_cold(of_topic, settlement, cold))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle_cold(self, of_topic: LeasedTopic, settlement: Settlement, cold: list[tuple[QueueKey, int]]) -> None:
        """What a settlement needs is not in memory: it waits for it."""
        await settlement.read_cold(self._store, cold)
        self._turn(of_topic).settlements.append((of_topic, settlement))

    def _topic(self, group: str, topic: TopicFacts) -> LeasedTopic:
        of_topic = self._topics.get((group, topic.topic_id))
        if of_topic is None:
            check_name(group, "group")
            of_topic = self._topics[group, topic.topic_id] = LeasedTopic(TopicStock(self._store, self._chunks, group, topic))
            self._readers[topic.topic_id].add(of_topic)
        return of_topic

    def _turn(self, of_topic: LeasedTopic) -> Turn:
        """The turn of a group that is about to be; this topic is looked at then."""
        group = of_topic.stock.group
        turn = self._turns.get(group)
        if turn is None:
            if not self._turns:
                self._loop.call_soon(self._decide_all)
            turn = self._turns[group] = Turn()
        turn.topics[of_topic] = None
        return turn

    # Deciding -----------------------------------------------------------------------------------------------------------------

    def _decide_all(self) -> None:
        turns, self._turns = self._turns, {}
        if self._closed:
            return
        self._alarms.ring_due()  # what ended by now is to be had by whoever asks now
        for group, turn in turns.items():
            try:
                self._decide(group, turn)
            except LiteMQError as error:
                self._failed(turn, error)
            except Exception:  # noqa: BLE001  whoever asked waits for an answer
                _LOG.exception("the leases of group %r could not be decided", group)
                self._failed(turn, StorageError("the broker could not do this; its log says why"))

    def _failed(self, turn: Turn, error: LiteMQError) -> None:
        """Nothing of what was decided is true: everybody is told, and the stocks are made anew."""
        for _, settlement in turn.settlements:
            settlement.caller.refuse(settlement.frame, error)
        for of_topic in turn.topics:
            for want in list(of_topic.waiting):
                self._forget(want)
                want.caller.refuse(want.frame, error)
            of_topic.stock.forget()

    def _decide(self, group: str, turn: Turn) -> None:
        now = self._clock.wall_ms()
        tick = Tick(group)
        for of_topic in turn.topics:
            for stock, lease in of_topic.stock.refresh(now):
                self._watch(of_topic.stock, stock, lease)
        for of_topic, settlement in turn.settlements:
            for stock, lease in settlement.decide(of_topic.stock, tick, now):
                self._watch(of_topic.stock, stock, lease)
        granted = [each for of_topic in turn.topics for each in self._serve(of_topic, tick, now)]
        if tick:
            self._store.append_control(tick.control())
        if tick.dead:
            self._store.append_placed(dead_letter_records(self._store, tick.dead, now))
        for failed in tick.failures:
            self._retries.wait(failed.predecessor, group, failed.due)
        for of_topic in turn.topics:
            of_topic.stock.recorded()
        for want, wish, given in granted:
            self._answer(want, wish, given)
        for of_topic in turn.topics:
            self._let_wait(of_topic)
        for _, settlement in turn.settlements:
            settlement.answer(self._store)

    def _serve(self, of_topic: LeasedTopic, tick: Tick, now: int) -> list[tuple[Want, Wish, Granted]]:
        """Give those who wait what there is, the first first."""
        stock = of_topic.stock
        served: list[tuple[Want, Wish, Granted]] = []
        if self._store.state.delivery.groups.is_paused(stock.group):
            return served
        in_flight = stock.in_flight
        for want in list(of_topic.waiting):
            if not want.caller.has_room:
                self._wait_for_room(of_topic, want)
                continue
            if of_topic.untold:
                self._forget(want)
                want.caller.refuse(want.frame, of_topic.untold.pop(0))
                continue
            room = min(want.max_messages, self._limits.max_in_flight - in_flight)
            if room <= 0:
                break
            request = want.request
            # A millisecond more: the time of now was cut to a whole one, and no lease ends early.
            wish = Wish(room, want.max_bytes, request.max_retries, _new_token(), now + request.lease_ms + 1, now, want.wanted)
            given = stock.grant(wish, tick)
            if given.counts or given.trouble is not None:
                in_flight += len(given.counts)
                served.append((want, wish, given))
                if given.counts and given.trouble is not None:
                    of_topic.untold.append(given.trouble)  # an answer is messages or an error, and nobody is to miss the error
                for of_queue, lease in given.leases:
                    self._watch(stock, of_queue, lease)
            elif given.looked_far_enough:
                self._turn(of_topic)  # after the others
            elif want.wanted is None:
                break  # there is nothing for those behind it, either
        return served

    def _answer(self, want: Want, wish: Wish, given: Granted) -> None:
        self._forget(want)
        if given.trouble is not None and not given.counts:
            want.caller.refuse(want.frame, given.trouble)
            return
        answer = LeaseAnswer(token=wish.token, deadline=wish.deadline, counts=given.counts)
        records = given.pieces[0] if len(given.pieces) == 1 else b"".join(given.pieces)
        want.caller.answer(want.frame, answer.SerializeToString(), records)

    # Waiting ------------------------------------------------------------------------------------------------------------------

    def _let_wait(self, of_topic: LeasedTopic) -> None:
        """Those who were given nothing wait for as long as they want to; what is on its way is waited for anyway."""
        if not of_topic.waiting:
            return
        turn = self._turns.get(of_topic.stock.group)
        is_at_it = of_topic.stock.is_reading or (turn is not None and of_topic in turn.topics)
        for want in list(of_topic.waiting):
            if want.timer is None and want.wait_ms:
                want.timer = self._loop.call_later(want.wait_ms / 1000, self._give_up, want)
            elif want.timer is None and not is_at_it:
                self._give_up(want)
        if of_topic.waiting and not is_at_it and of_topic.stock.has_unread and self._store.confirm_offset < self._store.log_end:
            self._look_when_confirmed(of_topic, self._store.log_end)  # written, and not safe yet: nobody will say that it has grown

    def _confirmed(self, of_topic: LeasedTopic, failure: LiteMQError | None) -> None:
        if failure is None and of_topic.waiting:
            self._turn(of_topic)

    def _wait_for_room(self, of_topic: LeasedTopic, want: Want) -> None:
        """It does not read what it was answered: it is looked at again when it does."""
        self._forget(want)

        def resume() -> None:
            of_topic.waiting[want] = None
            self._of_caller[want.caller][want] = of_topic
            self._turn(of_topic)

        want.caller.when_room(resume)

    def _give_up(self, want: Want) -> None:
        """Its time is over."""
        self._forget(want)
        want.caller.answer(want.frame, b"")

    def _forget(self, want: Want) -> None:
        if want.timer is not None:
            want.timer.cancel()
            want.timer = None
        of_caller = self._of_caller.get(want.caller)
        if of_caller is not None:
            of_topic = of_caller.pop(want, None)
            if of_topic is not None:
                of_topic.waiting.pop(want, None)
            if not of_caller:
                del self._of_caller[want.caller]

    # What happens meanwhile ---------------------------------------------------------------------------------------------------

    def on_append(self, keys: list[QueueKey], end: int) -> None:
        for topic_id in {key.topic_id for key in keys}:
            for of_topic in self._readers.get(topic_id, ()):
                self._look_when_confirmed(of_topic, end)

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:
        of_topic = self._topics.get((group, key.queue_id))  # a retry queue has the number of its topic
        if of_topic is not None:
            self._look_when_confirmed(of_topic, end)

    def _look_when_confirmed(self, of_topic: LeasedTopic, end: int) -> None:
        if of_topic.waiting:
            self._store.when_confirmed(end, lambda failure: self._confirmed(of_topic, failure))

    def on_read(self, place: tuple[str, QueueKey]) -> None:
        """Records that were not in memory can be had now."""
        group, key = place
        for topic_id in key:  # its own, or that for which it is tried again
            of_topic = self._topics.get((group, topic_id))
            if of_topic is not None and of_topic.waiting:
                self._turn(of_topic)

    def _watch(self, of_topic: TopicStock, stock: Stock, lease: Lease) -> None:
        slot = stock.watch(lease)
        if slot is not None:
            self._alarms.at(slot, self._ended, (of_topic, stock, slot))

    def _ended(self, endings: list[Ending]) -> None:
        """The time of some leases is over, unless they were settled or extended meanwhile."""
        now = self._clock.wall_ms()
        for of_group, stock, slot in endings:
            if stock.end(slot, now):
                of_topic = self._topics.get((of_group.group, of_group.topic_id))
                if of_topic is not None and of_topic.waiting:
                    self._turn(of_topic)

    def on_group_changed(self, group: str) -> None:
        for (name, _), of_topic in self._topics.items():
            if name == group:
                of_topic.has_begun = False
                self._turn(of_topic)

    def caller_gone(self, caller: Caller) -> None:
        """Nobody waits for the answers any more."""
        for want in list(self._of_caller.get(caller, ())):
            self._forget(want)

    def close(self) -> None:
        """Tell all who wait that there is nothing."""
        self._closed = True
        self._chunks.close()
        for task in self._tasks:
            task.cancel()
        for wants in list(self._of_caller.values()):
            for want in list(wants):
                self._give_up(want)
