"""The order of the requests to one queue, and what becomes of them when answers or connections are lost. No I/O, no clock.

The records of a queue are numbered one behind another, and the broker takes them in this order only: a number that it knows gets its old
receipt, one that leaves a gap is refused. So a request may be sent again as often as needed, and everything behind a refused one is refused,
too. When that happens, nothing more goes out until all answers are here; then everything that is still held goes out again, from the
first on, in its order.

Where a number will never come (its message was given up, or the broker has forgotten what it had acknowledged), the rest goes on under
a new producer id. That is done only with requests that cannot have been appended under their old number, nor will be: what may yet be
appended ends with ``SendOutcomeUnknownError`` instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from litemq.client.cluster.sending.request import Doubt, Request
from litemq.errors import LiteMQError, SendOutcomeUnknownError, SequenceGapError

__all__ = ["Failed", "Sequencer"]


class Failed(NamedTuple):
    """A request that will not be tried again, and what to tell those who wait for it."""

    request: Request
    error: LiteMQError


class Sequencer:
    """Takes requests, and says which goes out next. Each that went out comes back once: ``acked``, ``refused``, or with all others ``lost``."""

    __slots__ = (
        "_again",
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
        self.sent: dict[int, Request] = {}  # on their way, by their first number
        self.waiting: deque[Request] = deque()
        self._refused: list[Request] = []
        self._messages = 0  # how many are on their way
        self._again = False  # something was refused: wait for all answers, then go back
        self._renew = False  # the number behind the last that was appended will never come

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held."""
        return not (self.sent or self.waiting or self._refused)

    def held(self) -> list[Request]:
        """All that are neither acknowledged nor given up."""
        return [*sorted(chain(self.sent.values(), self._refused), key=lambda request: request.first), *self.waiting]

    def open(self, born_at: float) -> Request:
        """A new last request, still empty. Each record that it gets takes ``next_sequence``, and moves it on."""
        request = Request(self.producer_id, self.next_sequence, born_at)
        self.waiting.append(request)
        return request

    def put(self, request: Request) -> bool:
        """A request of one record, ripe from the beginning: whether it goes out now, or waits behind others."""
        self.next_sequence += 1
        sent = self.sent
        if self.waiting or self._again or len(sent) >= self._max_requests or self._messages >= self._max_messages:
            self.waiting.append(request)
            return False
        sent[request.first] = request
        self._messages += 1
        return True

    def adopt(self, request: Request) -> None:
        """Take a request that another queue has given back."""
        request.number(self.producer_id, self.next_sequence)
        self.next_sequence += len(request.records)
        self.waiting.append(request)

    def next(self) -> Request | None:
        """The request that goes out now, if any."""
        if self._again or not self.waiting:
            return None
        request = self.waiting[0]
        sent = self.sent
        if not request.ripe or (sent and (len(sent) >= self._max_requests or self._messages + len(request.records) > self._max_messages)):
            return None
        self.waiting.popleft()
        sent[request.first] = request
        self._messages += len(request.records)
        return request

    # What becomes of what went out --------------------------------------------------------------------------------------------

    def acked(self, request: Request) -> list[Failed]:
        """It is in the log."""
        del self.sent[request.first]
        self._messages -= len(request.records)
        return self._go_back() if self._again and not self.sent else []

    def refused(self, request: Request, error: LiteMQError) -> list[Failed]:
        """The broker answered that it did not append it."""
        del self.sent[request.first]
        self._messages -= len(request.records)
        self._again = True
        failed: list[Failed] = []
        if isinstance(error, SequenceGapError):
            self._refused.append(request)
            if error.expected < min(held.first for held in chain(self._refused, self.sent.values())):
                self._renew = True
                # None of them is in the log, and of those whose connection is over no copy will come.
                for held in self.held():
                    if held.doubt is Doubt.PAST:
                        held.doubt = Doubt.NONE
        elif error.retriable:
            request.refusal = error
            self._refused.append(request)
        else:
            failed.append(_given_up(request, error))
        return failed if self.sent else failed + self._go_back()

    def lost(self, *, over: bool) -> list[Failed]:
        """The connection ended before the answers came. ``over``: the broker ended it, so nothing that was sent on it waits there."""
        refused = {request.first for request in self._refused if not request.doubt}
        for first in sorted(chain(self.sent, refused)):
            if first not in refused:
                request = self.sent[first]
                request.doubt = max(request.doubt, Doubt.PAST if over else Doubt.FUTURE)
            elif over:
                break  # what came behind it was not taken, and will not be
        return self._go_back()

    def _go_back(self) -> list[Failed]:
        """No answer is to come any more: what is still held goes out again, from the first on."""
        if self.sent or self._refused:
            again = sorted(chain(self.sent.values(), self._refused), key=lambda request: request.first)
            self.waiting.extendleft(reversed(again))
            self.sent.clear()
            self._refused.clear()
            self._messages = 0
        self._again = False
        return self._go_on_under_a_new_id() if self._renew else []

    def _go_on_under_a_new_id(self) -> list[Failed]:
        """The broker expects a number below all that are held, which nobody will send any more."""
        self._renew = False
        self.producer_id, self.next_sequence = self._new_producer_id(), 0
        held, failed = list(self.waiting), []
        self.waiting.clear()
        for request in held:
            if request.doubt:
                failed.append(Failed(request, _unknown(request)))
            else:
                self.adopt(request)
        return failed

    # Giving up. The number of what is dropped here will never come: the request behind it finds that out. --------------------

    def expire(self, born_before: float, reason: LiteMQError) -> list[Failed]:
        """Give up what has waited for too long. What is on its way is not touched: its answer comes, or its connection is lost."""
        failed = []
        while self.waiting and self.waiting[0].ripe and self.waiting[0].born_at <= born_before:
            request = self.waiting.popleft()
            failed.append(_given_up(request, request.refusal or reason))
        return failed

    def abandon(self, reason: LiteMQError) -> list[Failed]:
        """Give up everything: nobody will wait for an answer any more."""
        for request in self.sent.values():
            request.doubt = Doubt.FUTURE
        failed = [_given_up(request, reason) for request in self.held()]
        self.sent.clear()
        self.waiting.clear()
        self._refused.clear()
        return failed

    def give_back(self) -> list[Request]:
        """Let go of what another queue may take: what has no ordering key and was certainly not appended."""
        free = [request for request in self.waiting if request.ripe and not request.pinned and not request.doubt]
        if free:
            self.waiting = deque(request for request in self.waiting if not request.ripe or request.pinned or request.doubt)
        return free


def _given_up(request: Request, error: LiteMQError) -> Failed:
    return Failed(request, _unknown(request) if request.doubt else error)


def _unknown(request: Request) -> SendOutcomeUnknownError:
    return SendOutcomeUnknownError(
        f"the connection was lost before {len(request.records)} message(s) from {request.ids[0]!r} on were acknowledged, "
        "and the broker could not be asked again in time: look for the id, or send again and expect two"
    )
