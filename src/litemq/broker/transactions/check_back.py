"""Transactions that nobody decides: their producers are asked, and what is asked for too often goes to the dead letters.

Whoever can answer for a group waits with a request; any of those is asked, and answers as it would have ended the transaction. That it was time to
ask is a record, for all transactions of a round together: so a restart neither forgets how often it was done, nor asks anew. A round counts
whether somebody was there or not: a producer that never comes back leaves nothing behind for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.transactions.check_schedule import CheckTimes
from litemq.broker.transactions.describe import facts_of
from litemq.broker.transactions.half_reader import records_of
from litemq.broker.transactions.undecided import HalfBurials
from litemq.errors import LiteMQError, OverloadedError
from litemq.format.transactions import group_of, is_producers
from litemq.net.frame import Frame
from litemq.proto.control_pb2 import Control, TransactionCheck, TransactionsChecked
from litemq.proto.wire_pb2 import CheckTransactionsAnswer, CheckTransactionsRequest, Opcode
from litemq.storage.state.transactions.halves import Halves
from litemq.types import check_name

__all__ = ["CheckBack"]

_IN_ONE_RECORD: Final = 1_000
_AT_ONCE: Final = 1_000  # transactions in one answer
_AGAIN_MS: Final = 1_000  # after a failure
_LOOK_MS: Final = 60_000
_MOST_WAIT_MS: Final = 60_000
_MOST_OF_CALLER: Final = 256  # requests that wait
_MOST_CHARS: Final = 64  # of a client's name, in a story
_LOG = logging.getLogger(__name__)


class _Poll:
    """Somebody who waits to be asked."""

    __slots__ = ("caller", "chosen", "expiry", "frame", "group", "most")

    def __init__(self, caller: Caller, frame: Frame, group: str, most: int) -> None:
        self.caller, self.frame, self.group, self.most = caller, frame, group, most
        self.chosen: list[str] = []
        self.expiry: asyncio.TimerHandle | None = None


_NOBODY: Final[deque[_Poll]] = deque()


class CheckBack:
    """On the event loop that is running when it is made."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._limits = context.limits
        self._alarms = context.alarms
        self._answers = context.answers
        self.times = CheckTimes(context.store, context.limits)
        self._burials = HalfBurials(context.store, context.clock, context.answers.lookups)
        self._loop = asyncio.get_running_loop()
        self._polls: dict[str, deque[_Poll]] = {}  # by group
        self._of_caller: dict[Caller, set[_Poll]] = {}
        self._waiting = 0
        self._unasked: dict[str, dict[str, None]] = {}  # by group: what the next who comes is asked for
        # Since a transaction was checked last: who came later and was asked for it, and whether somebody said that it does not know.
        self._late: dict[str, str] = {}
        self._unknown: set[str] = set()
        self._closed = False
        self.handlers = (Handler(Opcode.CHECK_TRANSACTIONS, Permission.GROUP_PUB, self._poll),)
        self.watch([name for name in self._halves.names() if is_producers(name)])

    @property
    def _halves(self) -> Halves:
        return self._store.state.delivery.halves

    def watch(self, transactions: Iterable[str]) -> None:
        """Transactions have begun."""
        for name in transactions:
            known = self._halves.get(name)
            if known is not None and not known.number:
                self._set_alarm(name, self.times.next_at(known))

    def _set_alarm(self, name: str, due: int) -> None:
        """Look at a transaction when it is time; sooner, where that is far off, since most have ended long before, and nobody cancels alarms."""
        self._alarms.at(min(due, self._clock.wall_ms() + _LOOK_MS), self._ring, name)

    def on_outcome_unknown(self, transaction: str) -> None:
        """The producer that was asked does not know the outcome of ``transaction``."""
        self._unknown.add(transaction)

    # Rounds -------------------------------------------------------------------------------------------------------------------

    def _ring(self, names: list[str]) -> None:
        now = self._clock.wall_ms()
        due: list[str] = []
        over: list[str] = []
        for name in names:
            known = self._halves.get(name)
            if known is None or known.number:
                self._forget(name)
            elif known.dead or (self.times.next_at(known) <= now and known.checks >= self.times.most(known)):
                over.append(name)
            elif self.times.next_at(known) <= now:
                due.append(name)
            else:
                self._set_alarm(name, self.times.next_at(known))
        try:
            for at in range(0, len(due), _IN_ONE_RECORD):
                self._check(due[at : at + _IN_ONE_RECORD], now)
        except LiteMQError as error:
            _LOG.warning("transactions were not checked: %s; it is tried again", error)
            self._again(due)
        if over:
            self._answers.in_background(self._bury(over))

    def _check(self, names: list[str], now: int) -> None:
        """One round: written down, and then asked."""
        polls = [(name, self._poll_for(group_of(name), name)) for name in names]
        checks = [
            TransactionCheck(
                transaction=name,
                asked="" if poll is None else _short(poll.caller.client_id),
                before=self._late.get(name, ""),
                unknown=name in self._unknown,
            )
            for name, poll in polls
        ]
        self._store.append_control(Control(transactions_checked=TransactionsChecked(at=now, checks=checks)))
        for name, poll in polls:
            self._forget(name)
            if poll is None:
                self._unasked.setdefault(group_of(name), {})[name] = None
            known = self._halves.get(name)
            if known is not None:
                self._set_alarm(name, self.times.next_at(known))
        for asked in {id(poll): poll for _, poll in polls if poll is not None}.values():
            self._leave(asked)
            self._answers.in_background(self._ask(asked, asked.chosen))

    def _poll_for(self, group: str, name: str) -> _Poll | None:
        """Whoever waits for the longest, and is not asked for too much already."""
        polls = self._polls.get(group, _NOBODY)
        for _ in range(len(polls)):
            poll = polls[0]
            polls.rotate(-1)
            if len(poll.chosen) < poll.most:
                poll.chosen.append(name)
                return poll
        return None

    def _forget(self, name: str) -> None:
        self._late.pop(name, None)
        self._unknown.discard(name)
        unasked = self._unasked.get(group_of(name))
        if unasked is not None:
            unasked.pop(name, None)
            if not unasked:
                del self._unasked[group_of(name)]

    def _again(self, names: Sequence[str]) -> None:
        for name in names:
            self._alarms.at(self._clock.wall_ms() + _AGAIN_MS, self._ring, name)

    async def _bury(self, names: list[str]) -> None:
        try:
            await self._burials.bury(names)
        except LiteMQError as error:
            if not self._closed:
                _LOG.warning("transactions that nobody decided are not in the dead letters yet: %s; it is tried again", error)
                self._again(names)
        for name in names:
            if self._halves.get(name) is None:
                self._forget(name)

    # Those who can answer -----------------------------------------------------------------------------------------------------

    def _poll(self, caller: Caller, frame: Frame) -> None:
        request = parse(CheckTransactionsRequest, frame[3])
        check_name(request.group, "group")
        if self._waiting >= self._limits.max_check_pollers:
            raise OverloadedError(f"{self._waiting} producers wait to be asked (max_check_pollers): come again later", _AGAIN_MS)
        if len(self._of_caller.get(caller, ())) >= _MOST_OF_CALLER:
            raise OverloadedError(f"this client waits with {_MOST_OF_CALLER} requests to be asked: one for each group is enough", _AGAIN_MS)
        poll = _Poll(caller, frame, request.group, max(1, min(request.most or _AT_ONCE, _AT_ONCE)))
        unasked = self._unasked.get(request.group)
        names: list[str] = []
        for name in list(unasked or ()):
            if len(names) == poll.most:
                break
            if self._is_undecided(name):
                names.append(name)
            self._forget(name)
        if names:
            self._late.update(dict.fromkeys(names, _short(caller.client_id)))
            self._answers.in_background(self._ask(poll, names))
            return
        self._polls.setdefault(request.group, deque()).append(poll)
        self._of_caller.setdefault(caller, set()).add(poll)
        self._waiting += 1
        poll.expiry = self._loop.call_later(min(request.wait_ms, _MOST_WAIT_MS) / 1000, self._expire, poll)

    def _is_undecided(self, name: str) -> bool:
        known = self._halves.get(name)
        return known is not None and not known.number and not known.dead

    def _expire(self, poll: _Poll) -> None:
        self._leave(poll)
        poll.caller.answer(poll.frame, b"")

    def _leave(self, poll: _Poll) -> None:
        """Somebody waits no longer."""
        polls = self._polls[poll.group]
        polls.remove(poll)
        if not polls:
            del self._polls[poll.group]
        of_caller = self._of_caller[poll.caller]
        of_caller.discard(poll)
        if not of_caller:
            del self._of_caller[poll.caller]
        self._waiting -= 1
        if poll.expiry is not None:
            poll.expiry.cancel()

    async def _ask(self, poll: _Poll, names: list[str]) -> None:
        """Tell somebody which outcomes are wanted, with the messages that they are about."""
        try:
            await self._store.confirmed(self._store.log_end)
            found = await self._loop.run_in_executor(self._answers.lookups, records_of, self._store, names, self._limits.max_pull_bytes)
        except LiteMQError as error:
            poll.caller.refuse(poll.frame, error)
            return
        answer = CheckTransactionsAnswer()
        for name, records in found.items():
            facts = facts_of(self._halves, name, self.times)
            facts.records = len(records)
            answer.transactions.append(facts)
        left = [name for name in names if name not in found and self._is_undecided(name)]
        if left:
            self._unasked.setdefault(poll.group, {}).update(dict.fromkeys(left))
        poll.caller.answer(poll.frame, answer.SerializeToString(), b"".join([raw for records in found.values() for raw in records]))

    def caller_gone(self, caller: Caller) -> None:
        """A caller's connection has ended: it cannot be asked."""
        for poll in list(self._of_caller.get(caller, ())):
            self._leave(poll)

    def close(self) -> None:
        """Those who wait are told that there is nothing."""
        self._closed = True
        for poll in [poll for polls in self._polls.values() for poll in polls]:
            self._expire(poll)


def _short(client: str) -> str:
    return client[:_MOST_CHARS]
