"""Deduplication: which requests of a tick are new, known, repeated or refused.

The broker compares the sequences of each producer and queue with those in the store's state.
Nothing is appended or answered here.
"""

from __future__ import annotations

from typing import Final

from litemq.broker.admission.due_time import check_due
from litemq.broker.admission.quotas import Quotas
from litemq.broker.admission.record_claims import (
    queue_priorities,
    read_claims,
    read_plain_claims,
    read_uniform_claims,
)
from litemq.broker.admission.replicas import check_replicated, topic_refusal
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.sending.send_tick import Earlier, Request, SendTick
from litemq.errors import InvalidArgumentError, LiteMQError, NotConfirmedError, SequenceGapError
from litemq.errors.detached import detached
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.storage.store import MAX_SENDS
from litemq.types import Durability

__all__ = ["Deduplication"]

_REPLICAS: Final = int(Durability.REPLICAS)


class Deduplication:
    """Checks requests against the state of the store. It has no state of its own."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.clock

    def check_uniform(self, topic_id: int, requests: list[Request]) -> SendTick | None:
        """Check ``requests`` by column.

        Return ``None`` if one of them is unusual: ``check`` decides then.
        """
        callers, frames, queue_ids = zip(*requests, strict=True)
        batches = [frame[4] for frame in frames]
        joined = bytearray().join(batches)
        claims = read_uniform_claims(
            joined, list(map(len, batches)), topic_id, queue_ids, has_priorities=self._has_priorities(topic_id)
        )
        if claims is None or (claims.level >= _REPLICAS and not self._has_replicas(topic_id)):
            return None
        pairs = dict(claims.sequences)
        expected_sequence = self._store.state.producers.expected
        if len(pairs) < len(claims.sequences) or any(first != expected_sequence(pair) for pair, first in pairs.items()):
            return None  # a gap, or a repeated sequence
        tick = SendTick()
        tick.callers, tick.frames, tick.queue_ids = list(callers), list(frames), list(queue_ids)
        tick.joined = joined
        tick.counts = [1] * len(frames)
        tick.levels = [claims.level] * len(frames)
        return tick

    def check_one(self, batch: bytes, topic_id: int, queue_id: int) -> tuple[int, int] | None:
        """Return the number of records and the level of a plain request with the expected sequence.

        Return ``None`` for any other: ``check`` decides then.
        """
        claims = read_plain_claims(batch)
        if claims is None:
            return None
        producer_id, sequence, count, level, due = claims
        if due or count > MAX_SENDS or (level >= _REPLICAS and not self._has_replicas(topic_id)):
            return None
        if producer_id and sequence != self._store.state.producers.expected((producer_id, topic_id, queue_id)):
            return None
        return count, level

    def check(self, topic_id: int, requests: list[Request], quotas: Quotas | None) -> SendTick:
        """Check ``requests`` one by one, in order, and count valid ones against ``quotas``."""
        tick = SendTick()
        tentative: dict[tuple[int, int, int], int] = {}  # sequences expected once the requests before are appended
        expected_sequence = self._store.state.producers.expected
        has_priorities = self._has_priorities(topic_id)
        for caller, frame, queue_id in requests:
            batch: bytes | memoryview = frame[4]
            try:
                priorities = queue_priorities(queue_id, has_priorities=has_priorities)
                producer_id, sequence, count, level, due = read_claims(frame[4], priorities)
                if level >= _REPLICAS:
                    self._check_replicas((producer_id, topic_id, queue_id), sequence, count, tentative)
                if due:
                    check_due(self._store, self._clock, due, len(batch))
                if quotas is not None:
                    quotas.take(caller.client_id, count, len(batch))
                if producer_id:
                    pair = (producer_id, topic_id, queue_id)
                    expected = tentative.get(pair)
                    if expected is None:
                        expected = expected_sequence(pair)
                    if sequence != expected:
                        if sequence < expected and pair in tentative:
                            tick.repeated.append((caller, frame, queue_id))
                            continue
                        earlier = self._receipts(pair, sequence, count, expected)
                        if len(earlier) == count:
                            tick.known.append((caller, frame, earlier, level))
                            continue
                        tick.earlier[len(tick.frames)] = earlier
                        batch = memoryview(batch)[int(scan(batch, limits=STORED_LIMITS).starts[len(earlier)]) :]
                        tentative[pair] = sequence + count
                        count -= len(earlier)
                    else:
                        tentative[pair] = sequence + count
            except LiteMQError as error:
                tick.refused.append((caller, frame, detached(error)))
                continue
            if due:
                tick.delayed.append(len(tick.frames))
            tick.callers.append(caller)
            tick.frames.append(frame)
            tick.queue_ids.append(queue_id)
            tick.batches.append(batch)
            tick.counts.append(count)
            tick.levels.append(level)
        return tick

    def _has_replicas(self, topic_id: int) -> bool:
        """Return whether the topic accepts new records of durability ``replicas``."""
        return self._store.is_replicated and self._refusal(topic_id) is None

    def _refusal(self, topic_id: int) -> LiteMQError | None:
        return topic_refusal(self._store, self._store.state.topics.get(topic_id))

    def _check_replicas(
        self, pair: tuple[int, int, int], sequence: int, count: int, tentative: dict[tuple[int, int, int], int]
    ) -> None:
        """Raise if a request of durability ``replicas`` has new records, and they are refused now.

        If the store has all of its records, it waits for their confirmation instead.
        """
        check_replicated(self._store, _REPLICAS)
        refusal = self._refusal(pair[1])
        if refusal is None:
            return
        expected = 0
        if pair[0]:
            expected = tentative.get(pair) or self._store.state.producers.expected(pair)
        if sequence >= expected:
            raise refusal
        if sequence + count > expected:
            raise NotConfirmedError(f"an earlier try has written the first records, but not confirmed them: {refusal}")

    def _has_priorities(self, topic_id: int) -> bool:
        topic = self._store.state.topics.get(topic_id)
        return topic is not None and topic.has_priorities

    def _receipts(self, pair: tuple[int, int, int], sequence: int, count: int, expected: int) -> Earlier:
        """Return the receipts of the records below ``expected``, of ``count`` records from
        ``sequence`` on.

        Raise if there is a gap before ``sequence``, or if the state no longer has a receipt.
        """
        if sequence > expected:
            raise SequenceGapError(
                f"sequence {sequence} of producer {pair[0]} in queue {pair[2]} leaves a gap: send sequence {expected} "
                "first",
                expected,
            )
        earlier: Earlier = []
        for known in range(sequence, min(sequence + count, expected)):
            receipt = self._store.state.producers.receipt(pair, known)
            if receipt is None:
                raise InvalidArgumentError(
                    f"sequence {known} of producer {pair[0]} was sent too long ago to retry: its receipt is no longer "
                    "stored"
                )
            earlier.append(receipt)
        return earlier
