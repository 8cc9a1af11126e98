"""The sequence of requests to one queue: order, resends after lost answers, and renumbering.

No I/O, no clock.

Records are numbered without a gap, and the broker appends them in this order only. A known number
gets its old receipt, and a number behind a gap is refused. So a request may be resent any number of
times, and every request behind a refused one is refused, too. After a refusal the sequencer sends
nothing until all answers have arrived, then resends all held requests from the first on.

If a number will never arrive (its message was given up, or the broker lost records it had
acknowledged), the remaining requests get a new producer id. This is done only for requests without
append risk; all others end with ``SendOutcomeUnknownError``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from litemq.client.cluster.sending.request import AppendRisk, Request
from litemq.errors import GroupUnavailableError, LiteMQError, SendOutcomeUnknownError, SequenceGapError

__all__ = ["FailedRequest", "Sequencer"]


class FailedRequest(NamedTuple):
    """A request that will not be sent again, and the error for its senders."""

    request: Request
    error: LiteMQError


class Sequencer:
    """The requests to one queue.

    Each request sent ends once: ``acked``, ``refused``, or with all others ``lost``.
    """

    __slots__ = (
        "_draining",
        "_max_messages",
        "_max_requests",
        "_messages",
        "_new_producer_id",
        "_refused",
        "_renew",
        "next_sequence",
        "producer_id",
        "sent",
        "waiting",
    )

    def __init__(self, new_producer_id: Callable[[], int], *, max_requests: int, max_messages: int) -> None:
        self._new_producer_id = new_producer_id
        self._max_requests = max_requests
        self._max_messages = max_messages
        self.producer_id = new_producer_id()
        self.next_sequence = 0
        self.sent: dict[int, Request] = {}  # in flight, by their first number
        self.waiting: deque[Request] = deque()
        self._refused: list[Request] = []
        self._messages = 0  # in flight
        self._draining = False  # a request was refused: wait for all answers, then resend
        self._renew = False  # the number that the broker expects will never arrive

    @property
    def is_idle(self) -> bool:
        """Whether no request is held."""
        return not (self.sent or self.waiting or self._refused)

    def held(self) -> list[Request]:
        """Return all requests that are neither acknowledged nor given up, in order."""
        return [*sorted(chain(self.sent.values(), self._refused), key=lambda request: request.first), *self.waiting]

    def open(self, born_at: float) -> Request:
        """Append an empty request.

        The caller adds records until it calls ``seal``, before anything else is appended.
        """
        request = Request(self.producer_id, self.next_sequence, born_at)
        self.waiting.append(request)
        return request

    def seal(self, request: Request) -> None:
        """Seal the request that ``open`` returned: it takes no more records."""
        request.sealed = True
        self.next_sequence = request.first + len(request.records)

    def put(self, request: Request) -> bool:
        """Append a sealed request of one record; return whether to send it now."""
        self.next_sequence += 1
        sent = self.sent
        if self.waiting or self._draining or len(sent) >= self._max_requests or self._messages >= self._max_messages:
            self.waiting.append(request)
            return False
        sent[request.first] = request
        self._messages += 1
        return True

    def adopt(self, request: Request) -> None:
        """Append a request that another queue has given back, under new numbers."""
        request.renumber(self.producer_id, self.next_sequence)
        self.next_sequence += len(request.records)
        self.waiting.append(request)

    def next_request(self) -> Request | None:
        """Return the request to send now, if any."""
        if self._draining or not self.waiting:
            return None
        request = self.waiting[0]
        sent = self.sent
        if not request.sealed or (
            sent and (len(sent) >= self._max_requests or self._messages + len(request.records) > self._max_messages)
        ):
            return None
        self.waiting.popleft()
        sent[request.first] = request
        self._messages += len(request.records)
        return request

    # Outcomes of requests in flight ---------------------------------------------------------------

    def acked(self, request: Request) -> list[FailedRequest]:
        """Record that ``request`` was appended."""
        del self.sent[request.first]
        self._messages -= len(request.records)
        return self._resend_held() if self._draining and not self.sent else []

    def refused(self, request: Request, error: LiteMQError) -> list[FailedRequest]:
        """Record that the broker did not append ``request``."""
        del self.sent[request.first]
        self._messages -= len(request.records)
        self._draining = True
        failed: list[FailedRequest] = []
        if isinstance(error, SequenceGapError):
            self._refused.append(request)
            if error.expected < min(held.first for held in chain(self._refused, self.sent.values())):
                self._renew = True
                # None of them is in the log, and no attempt on a closed connection will arrive.
                for held in self.held():
                    if held.risk is AppendRisk.PAST:
                        held.risk = AppendRisk.NONE
        elif error.retriable:
            request.refusal = error
            self._refused.append(request)
        else:
            failed.append(_given_up(request, error))
        return failed if self.sent else failed + self._resend_held()

    def unconfirmed(self, request: Request, error: LiteMQError) -> list[FailedRequest]:
        """Record that the broker may have appended ``request``, but cannot confirm it.

        It is resent under the same numbers, to this queue only.
        """
        request.risk = max(request.risk, AppendRisk.PAST)
        return self.refused(request, error)

    def lost(self, *, over: bool) -> list[FailedRequest]:
        """Record that the connection ended with requests in flight.

        ``over``: the broker closed it, so no request sent on it is still in a buffer there.
        """
        refused = {request.first for request in self._refused if not request.risk}
        for first in sorted(chain(self.sent, refused)):
            if first not in refused:
                request = self.sent[first]
                request.risk = max(request.risk, AppendRisk.PAST if over else AppendRisk.FUTURE)
            elif over:
                break  # requests behind a refused one were not appended, and will not be
        return self._resend_held()

    def _resend_held(self) -> list[FailedRequest]:
        """Queue all held requests again, from the first on: no more answers will arrive."""
        if self.sent or self._refused:
            held = sorted(chain(self.sent.values(), self._refused), key=lambda request: request.first)
            self.waiting.extendleft(reversed(held))
            self.sent.clear()
            self._refused.clear()
            self._messages = 0
        self._draining = False
        return self._renew_producer_id() if self._renew else []

    def _renew_producer_id(self) -> list[FailedRequest]:
        """Renumber held requests: the number that the broker expects will never arrive."""
        self._renew = False
        self.producer_id, self.next_sequence = self._new_producer_id(), 0
        held, failed = list(self.waiting), []
        self.waiting.clear()
        for request in held:
            if request.risk:
                failed.append(FailedRequest(request, _unknown(request)))
            else:
                self.adopt(request)
        return failed

    # Giving up: the next request gets a sequence gap error, which renews the producer id.

    def expire(self, born_before: float, reason: LiteMQError) -> list[FailedRequest]:
        """Give up waiting requests that are older than ``born_before``.

        Requests in flight are not affected. If no replica of the group serves, ``reason`` says
        more than the last refusal.
        """
        is_unavailable = isinstance(reason, GroupUnavailableError)
        failed = []
        while self.waiting and self.waiting[0].sealed and self.waiting[0].born_at <= born_before:
            request = self.waiting.popleft()
            failed.append(_given_up(request, reason if is_unavailable else request.refusal or reason))
        return failed

    def abandon(self, reason: LiteMQError) -> list[FailedRequest]:
        """Give up all requests: the client closes."""
        for request in self.sent.values():
            request.risk = AppendRisk.FUTURE
        failed = [_given_up(request, reason) for request in self.held()]
        self.sent.clear()
        self.waiting.clear()
        self._refused.clear()
        return failed

    def take_movable(self) -> list[Request]:
        """Remove and return the requests without ordering key and append risk."""
        free = [request for request in self.waiting if request.sealed and not request.pinned and not request.risk]
        if free:
            self.waiting = deque(
                request for request in self.waiting if not request.sealed or request.pinned or request.risk
            )
        return free


def _given_up(request: Request, error: LiteMQError) -> FailedRequest:
    return FailedRequest(request, _unknown(request, error) if request.risk else error)


def _unknown(request: Request, error: LiteMQError | None = None) -> SendOutcomeUnknownError:
    cause = (
        "the connection was lost" if request.refusal is None else f"the broker refused the last try ({request.refusal})"
    )
    return SendOutcomeUnknownError(
        f"{cause} before {len(request.records)} message(s) "
        f"from {request.ids[0]!r} on were acknowledged, "
        "and a retry was not possible in time: search for the id, or send again and accept a duplicate"
        + (f" ({error})" if isinstance(error, GroupUnavailableError) else "")
    )
