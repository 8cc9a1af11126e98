"""Tick batching: everything that is sent in one turn of the event loop becomes one append.

A batch costs the store about the same whether it has one record or sixty. So requests of many connections that arrive together are
joined; each gets its own answer, and one that is not valid is refused alone.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from litemq.errors import InvalidArgumentError, LiteMQError, RecordFormatError
from litemq.format.limits import STORED_LIMITS
from litemq.format.scan import ScanStop, scan
from litemq.storage.store import Appended, Store
from litemq.types import Durability

__all__ = ["Gatherer"]


class _Request(NamedTuple):
    batch: bytes | bytearray
    queue_id: int
    durability: Durability
    answer: asyncio.Future[Appended]


class Gatherer:
    """Appends for many senders on the event loop that is running when it is made."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._requests: dict[int, list[_Request]] = {}

    def append(
        self, batch: bytes | bytearray, topic_id: int, queue_id: int, durability: Durability = Durability.DISK
    ) -> asyncio.Future[Appended]:
        """Where the batch went, once that is as safe as it was asked to be. Batches of one sender keep their order."""
        if type(queue_id) is not int:
            raise InvalidArgumentError(f"queue {queue_id!r}: pass a whole number")
        requests = self._requests.get(topic_id)
        if requests is None:
            if not self._requests:
                self._loop.call_soon(self._append_all)
            requests = self._requests[topic_id] = []
        answer: asyncio.Future[Appended] = self._loop.create_future()
        requests.append(_Request(batch, queue_id, durability, answer))
        return answer

    def _append_all(self) -> None:
        gathered, self._requests = self._requests, {}
        for topic_id, requests in gathered.items():
            try:
                self._append_of_topic(topic_id, requests)
            except Exception as error:  # noqa: BLE001  nobody's fault, and so everybody's: they wait for an answer, whatever it is
                _refuse(requests, error)

    def _append_of_topic(self, topic_id: int, requests: list[_Request]) -> None:
        counts = [_count(request[0]) for request in requests]
        if len(requests) > 1 and all(counts):
            try:
                self._append_together(topic_id, requests, counts)
            except (RecordFormatError, InvalidArgumentError):
                pass  # something of somebody's is not valid: each for itself
            else:
                return
        for request in requests:
            self._append_alone(topic_id, request)

    def _append_alone(self, topic_id: int, request: _Request) -> None:
        try:
            appended = self._store.append(bytearray(request.batch), topic_id, request.queue_id)
        except (RecordFormatError, InvalidArgumentError) as error:
            _refuse([request], error)
        else:
            self._answer([request], [appended])

    def _append_together(self, topic_id: int, requests: list[_Request], counts: list[int]) -> None:
        joined = bytearray().join([request[0] for request in requests])
        queue_ids = [request[1] for request in requests]
        one_queue = queue_ids.count(queue_ids[0]) == len(queue_ids)
        appended = self._store.append(joined, topic_id, queue_ids[0] if one_queue else np.repeat(queue_ids, counts))
        log_offsets, queue_offsets, time, end = appended
        borders = pairwise(accumulate(counts, initial=0))
        self._answer(requests, [Appended(log_offsets[at:behind], queue_offsets[at:behind], time, end) for at, behind in borders])

    def _answer(self, requests: list[_Request], receipts: list[Appended]) -> None:
        """Those to whom memory is enough at once, the others when it is confirmed: all of them are told together."""
        later = []
        for (_, _, durability, answer), receipt in zip(requests, receipts, strict=True):
            if durability >= Durability.DISK:
                later.append((answer, receipt))
            elif not answer.done():
                answer.set_result(receipt)

        def confirmed(failure: LiteMQError | None) -> None:
            for answer, receipt in later:
                if answer.done():  # whoever waited has gone
                    continue
                if failure is None:
                    answer.set_result(receipt)
                else:
                    answer.set_exception(failure)

        if later:
            self._store.when_confirmed(receipts[-1].end, confirmed)


def _count(batch: bytes | bytearray) -> int:
    """How many records a batch has; 0 where it is not made of whole records, which is then said to its sender alone."""
    if int.from_bytes(batch[:4], "big") == len(batch):
        return 1
    found = scan(batch, limits=STORED_LIMITS)
    return int(found.starts.size) if found.stop is ScanStop.END else 0


def _refuse(requests: list[_Request], error: Exception) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(error)
