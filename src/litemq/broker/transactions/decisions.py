"""Decisions: commits and rolls back the transactions of producers.

The commits of one tick are one append of their messages, which are themselves the decision. If a
transaction is large, or its halves are not in memory, a record commits it, and its messages follow.
The first decision counts: a repeated request is answered with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import when_safe
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.transactions.check_back import CheckBack
from litemq.broker.transactions.describe import transaction_state
from litemq.broker.transactions.publishing import HalfPublisher
from litemq.errors import InvalidArgumentError, LiteMQError, RecordFormatError, StoreFailedError
from litemq.errors.detached import detached
from litemq.format.transactions import is_producer_transaction
from litemq.net.frame import Frame
from litemq.proto.control_pb2 import Control, TransactionsDecided
from litemq.proto.wire_pb2 import (
    TX_COMMITTED,
    TX_INCOMPLETE,
    TX_ROLLED_BACK,
    TX_UNDECIDED,
    EndTransactionsAnswer,
    EndTransactionsRequest,
    Opcode,
    TransactionEnd,
    TransactionState,
)
from litemq.storage.batches.half_batches import rollback_controls
from litemq.storage.state import QueueKey
from litemq.storage.state.transactions.halves import Halves
from litemq.storage.state.transactions.transaction import Transaction

__all__ = ["Decisions"]

_BYTES_AT_ONCE: Final = 1 << 20  # of messages in one append, in which all other work waits
_MAX_ENDS: Final = 10_000  # in one request
_MAX_NAMES: Final = 256  # in one record
_OUTCOMES: Final = (TX_COMMITTED, TX_ROLLED_BACK, TX_UNDECIDED)
_LOG = logging.getLogger(__name__)


class _Request(NamedTuple):
    caller: Caller
    frame: Frame
    ends: Sequence[TransactionEnd]


class Decisions:
    """Takes END_TRANSACTIONS, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext, publisher: HalfPublisher, check_back: CheckBack) -> None:
        self._store = context.store
        self._clock = context.clock
        self._events = context.events
        self._publisher = publisher
        self._check_back = check_back
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Request] = []
        self.handlers = (Handler(Opcode.END_TRANSACTIONS, Permission.GROUP_PUB, self._take),)

    @property
    def _halves(self) -> Halves:
        return self._store.state.parts.halves

    def _take(self, caller: Caller, frame: Frame) -> None:
        ends = parse(EndTransactionsRequest, frame[3]).ends
        if not 1 <= len(ends) <= _MAX_ENDS:
            raise InvalidArgumentError(f"{len(ends)} transactions in one request: end 1 … {_MAX_ENDS}")
        for end in ends:
            if end.outcome not in _OUTCOMES:
                raise InvalidArgumentError(
                    f"outcome {end.outcome} of {end.transaction[:80]!r}: choose committed, rolled back or undecided"
                )
            if not is_producer_transaction(end.transaction):
                raise InvalidArgumentError(
                    f"transaction {end.transaction[:80]!r} does not belong to a producer: only its Spark job can end it"
                )
        if not self._gathered:
            self._loop.call_soon(self._end_all)
        self._gathered.append(_Request(caller, frame, ends))

    def _end_all(self) -> None:
        requests, self._gathered = self._gathered, []
        try:
            answers = self._end(requests)
        except (
            LiteMQError
        ) as error:  # decisions that were appended before count; a repeated request is answered with them
            failure = detached(error)
        except Exception:  # noqa: BLE001  every caller waits for an answer
            _LOG.exception("ending transactions failed")
            failure = StoreFailedError("the append failed, or its outcome is unknown: see the broker's log")
        else:
            self._answer(requests, answers)
            return
        for request in requests:
            request.caller.refuse(request.frame, failure)

    def _end(self, requests: list[_Request]) -> list[EndTransactionsAnswer]:
        """Apply the requests of a tick in order: the first decision of a transaction counts."""
        committed: dict[str, None] = {}
        rolled_back: dict[str, None] = {}
        answers = []
        for _, _, ends in requests:
            states: list[TransactionState] = []
            for end in ends:
                name = end.transaction
                state = (
                    TX_COMMITTED
                    if name in committed
                    else TX_ROLLED_BACK
                    if name in rolled_back
                    else transaction_state(self._halves, name)
                )
                if state == TX_UNDECIDED:
                    if end.outcome == TX_UNDECIDED:
                        self._check_back.on_outcome_unknown(name)
                    elif end.outcome == TX_ROLLED_BACK:
                        rolled_back[name] = None
                        state = TX_ROLLED_BACK
                    else:
                        known = self._halves.get(name)
                        is_whole = known is not None and end.count in (0, known.count)
                        state = TX_COMMITTED if is_whole else TX_INCOMPLETE
                        if is_whole:
                            committed[name] = None
                states.append(state)
            answers.append(EndTransactionsAnswer(states=states))
        for control in rollback_controls(list(rolled_back), "its producer rolled it back"):
            self._store.append_control(control)
        self._commit(list(committed))
        return answers

    # Commits --------------------------------------------------------------------------------------

    def _commit(self, names: list[str]) -> None:
        at_hand: list[str] = []
        others: list[str] = []
        size = 0
        for name in names:
            known = self._halves.get(name)
            if known is None:
                continue
            if not self._is_at_hand(known):
                others.append(name)
                continue
            if at_hand and size + known.bytes > _BYTES_AT_ONCE:
                others += self._append(at_hand)
                at_hand, size = [], 0
            at_hand.append(name)
            size += known.bytes
        if at_hand:
            others += self._append(at_hand)
        for at in range(0, len(others), _MAX_NAMES):
            decided = TransactionsDecided(transactions=others[at : at + _MAX_NAMES])
            self._store.append_control(Control(transactions_decided=decided))
        if others:
            self._publisher.begin()

    def _is_at_hand(self, known: Transaction) -> bool:
        if known.bytes > _BYTES_AT_ONCE or known.dropped:
            return False
        return self._store.is_hot(known.first_log_offset)

    def _append(self, names: list[str]) -> list[str]:
        """Append the messages of transactions; return those that need a record instead."""
        keys = {
            QueueKey(run.topic_id, run.queue_id): None
            for name in names
            if (known := self._halves.get(name))
            for run in known.runs
        }
        try:
            end = self._store.commit_transactions(names, self._clock.wall_ms()).end
        except (InvalidArgumentError, RecordFormatError):
            if len(names) == 1:
                return names  # one of its records is damaged: the publisher skips it
            return [other for name in names for other in self._append([name])]
        self._events.on_append(list(keys), end)
        self._events.on_timer_added()
        return []

    # Answers --------------------------------------------------------------------------------------

    def _answer(self, requests: list[_Request], answers: list[EndTransactionsAnswer]) -> None:
        def safe(failure: LiteMQError | None) -> None:
            for request, answer in zip(requests, answers, strict=True):
                if failure is None:
                    request.caller.answer(request.frame, answer.SerializeToString())
                else:
                    request.caller.refuse(request.frame, failure)

        when_safe(self._store, self._store.log_end, safe)
