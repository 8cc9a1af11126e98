"""Check-back: the broker asks producers for the outcome of undecided transactions.

Producers that can answer for a group wait with a poll. The broker asks one of them, and it answers
as if it ended the transaction. All checks of a round are one record, so a restart neither forgets
nor repeats them. A round counts also if no producer is there: after ``max_checks`` rounds, the
transaction becomes dead letters.
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
from litemq.broker.transactions.check_schedule import CheckSchedule
from litemq.broker.transactions.describe import describe_transaction
from litemq.broker.transactions.half_reader import read_transactions
from litemq.broker.transactions.undecided import UndecidedHalves
from litemq.errors import LiteMQError, OverloadedError
from litemq.format.transactions import is_producer_transaction, transaction_group
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
_MAX_WAIT_MS: Final = 60_000
_MAX_CALLER_POLLS: Final = 256  # requests that wait
_MAX_CHARS: Final = 64  # of a client id, in the history of checks
_LOG = logging.getLogger(__name__)


class _Poll:
    """A producer that waits for checks."""

    __slots__ = ("caller", "chosen", "expiry", "frame", "group", "limit")

    def __init__(self, caller: Caller, frame: Frame, group: str, limit: int) -> None:
        self.caller, self.frame, self.group, self.limit = caller, frame, group, limit
        self.chosen: list[str] = []
        self.expiry: asyncio.TimerHandle | None = None


_NO_POLLS: Final[deque[_Poll]] = deque()


class CheckBack:
    """The checks of one broker, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.store.log_clock
        self._limits = context.limits
        self._alarms = context.log_alarms
        self._answers = context.answers
        self.schedule = CheckSchedule(context.store, context.limits)
        self._undecided = UndecidedHalves(context.store, context.clock, context.answers.lookups)
        self._loop = asyncio.get_running_loop()
        self._polls: dict[str, deque[_Poll]] = {}  # by group
        self._caller_polls: dict[Caller, set[_Poll]] = {}
        self._waiting = 0
        self._unasked: dict[str, dict[str, None]] = {}  # by group: transactions for the next poll
        # Since the last check of a transaction: the producer that was asked later, and those that
        # answered *unknown*.
        self._late: dict[str, str] = {}
        self._unknown: set[str] = set()
        self._closed = False
        self.handlers = (Handler(Opcode.CHECK_TRANSACTIONS, Permission.GROUP_PUB, self._poll),)
        self.watch([name for name in self._halves.names() if is_producer_transaction(name)])

    @property
    def _halves(self) -> Halves:
        return self._store.state.parts.halves

    def watch(self, transactions: Iterable[str]) -> None:
        """Schedule the checks of transactions that have begun."""
        for name in transactions:
            known = self._halves.get(name)
            if known is not None and not known.decision_number:
                self._set_alarm(name, self.schedule.next_at(known))

    def _set_alarm(self, name: str, due: int) -> None:
        """Set an alarm for ``due``, or for the next minute: most transactions end before, and
        alarms are never cancelled.
        """
        self._alarms.at(min(due, self._clock.wall_ms() + _LOOK_MS), self._ring, name)

    def on_outcome_unknown(self, transaction: str) -> None:
        """The producer that was asked does not know the outcome of ``transaction``."""
        self._unknown.add(transaction)

    # Rounds ---------------------------------------------------------------------------------------

    def _ring(self, names: list[str]) -> None:
        now = self._clock.wall_ms()
        due: list[str] = []
        over: list[str] = []
        for name in names:
            known = self._halves.get(name)
            if known is None or known.decision_number:
                self._forget(name)
            elif known.dead or (
                self.schedule.next_at(known) <= now and known.checks >= self.schedule.max_checks(known)
            ):
                over.append(name)
            elif self.schedule.next_at(known) <= now:
                due.append(name)
            else:
                self._set_alarm(name, self.schedule.next_at(known))
        try:
            for at in range(0, len(due), _IN_ONE_RECORD):
                self._check(due[at : at + _IN_ONE_RECORD], now)
        except LiteMQError as error:
            _LOG.warning("transactions were not checked: %s. Retrying in 1 s", error)
            self._again(due)
        if over:
            self._answers.in_background(self._give_up(over))

    def _check(self, names: list[str], now: int) -> None:
        """Append the record of a round, and ask the producers."""
        polls = [(name, self._poll_for(transaction_group(name), name)) for name in names]
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
                self._unasked.setdefault(transaction_group(name), {})[name] = None
            known = self._halves.get(name)
            if known is not None:
                self._set_alarm(name, self.schedule.next_at(known))
        for asked in {id(poll): poll for _, poll in polls if poll is not None}.values():
            self._leave(asked)
            self._answers.in_background(self._ask(asked, asked.chosen))

    def _poll_for(self, group: str, name: str) -> _Poll | None:
        """Add the transaction to the next poll of the group that is below its limit; return it."""
        polls = self._polls.get(group, _NO_POLLS)
        for _ in range(len(polls)):
            poll = polls[0]
            polls.rotate(-1)
            if len(poll.chosen) < poll.limit:
                poll.chosen.append(name)
                return poll
        return None

    def _forget(self, name: str) -> None:
        self._late.pop(name, None)
        self._unknown.discard(name)
        unasked = self._unasked.get(transaction_group(name))
        if unasked is not None:
            unasked.pop(name, None)
            if not unasked:
                del self._unasked[transaction_group(name)]

    def _again(self, names: Sequence[str]) -> None:
        for name in names:
            self._alarms.at(self._clock.wall_ms() + _AGAIN_MS, self._ring, name)

    async def _give_up(self, names: list[str]) -> None:
        try:
            await self._undecided.give_up(names)
        except LiteMQError as error:
            if not self._closed:
                _LOG.warning("undecided transactions were not dead-lettered: %s. Retrying in 1 s", error)
                self._again(names)
        for name in names:
            if self._halves.get(name) is None:
                self._forget(name)

    # Polls ----------------------------------------------------------------------------------------

    def _poll(self, caller: Caller, frame: Frame) -> None:
        request = parse(CheckTransactionsRequest, frame[3])
        check_name(request.group, "group")
        if self._waiting >= self._limits.max_check_pollers:
            raise OverloadedError(
                f"{self._waiting} producers already poll for checks, the maximum: retry later", _AGAIN_MS
            )
        if len(self._caller_polls.get(caller, ())) >= _MAX_CALLER_POLLS:
            raise OverloadedError(
                f"this client already has {_MAX_CALLER_POLLS} waiting polls for checks: send one per group", _AGAIN_MS
            )
        poll = _Poll(caller, frame, request.group, max(1, min(request.most or _AT_ONCE, _AT_ONCE)))
        unasked = self._unasked.get(request.group)
        names: list[str] = []
        for name in list(unasked or ()):
            if len(names) == poll.limit:
                break
            if self._is_undecided(name):
                names.append(name)
            self._forget(name)
        if names:
            self._late.update(dict.fromkeys(names, _short(caller.client_id)))
            self._answers.in_background(self._ask(poll, names))
            return
        self._polls.setdefault(request.group, deque()).append(poll)
        self._caller_polls.setdefault(caller, set()).add(poll)
        self._waiting += 1
        poll.expiry = self._loop.call_later(min(request.wait_ms, _MAX_WAIT_MS) / 1000, self._expire, poll)

    def _is_undecided(self, name: str) -> bool:
        known = self._halves.get(name)
        return known is not None and not known.decision_number and not known.dead

    def _expire(self, poll: _Poll) -> None:
        self._leave(poll)
        poll.caller.answer(poll.frame, b"")

    def _leave(self, poll: _Poll) -> None:
        """Remove a poll that no longer waits."""
        polls = self._polls[poll.group]
        polls.remove(poll)
        if not polls:
            del self._polls[poll.group]
        caller_polls = self._caller_polls[poll.caller]
        caller_polls.discard(poll)
        if not caller_polls:
            del self._caller_polls[poll.caller]
        self._waiting -= 1
        if poll.expiry is not None:
            poll.expiry.cancel()

    async def _ask(self, poll: _Poll, names: list[str]) -> None:
        """Answer a poll with the transactions ``names`` and their messages."""
        try:
            await self._store.confirmed(self._store.log_end)
            found = await self._loop.run_in_executor(
                self._answers.lookups, read_transactions, self._store, names, self._limits.max_pull_bytes
            )
        except LiteMQError as error:
            poll.caller.refuse(poll.frame, error)
            return
        answer = CheckTransactionsAnswer()
        for name, records in found.items():
            facts = describe_transaction(self._halves, name, self.schedule)
            facts.records = len(records)
            answer.transactions.append(facts)
        left = [name for name in names if name not in found and self._is_undecided(name)]
        if left:
            self._unasked.setdefault(poll.group, {}).update(dict.fromkeys(left))
        poll.caller.answer(
            poll.frame, answer.SerializeToString(), b"".join([raw for records in found.values() for raw in records])
        )

    def caller_gone(self, caller: Caller) -> None:
        """Drop the polls of ``caller``, whose connection has ended."""
        for poll in list(self._caller_polls.get(caller, ())):
            self._leave(poll)

    def close(self) -> None:
        """Answer all polls: no transactions."""
        self._closed = True
        for poll in [poll for polls in self._polls.values() for poll in polls]:
            self._expire(poll)


def _short(client: str) -> str:
    return client[:_MAX_CHARS]
