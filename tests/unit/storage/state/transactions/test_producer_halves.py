"""Producers' transactions in ``Halves``: decided once, by the first message or dead letter."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.proto.control_pb2 import (
    Control,
    HalvesRolledBack,
    HalvesSkipped,
    TopicDeleted,
    TransactionCheck,
    TransactionsChecked,
    TransactionsDecided,
)
from litemq.storage.state.machine_parts import MachineParts
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.transactions import outcomes
from litemq.storage.state.transactions.half_events import HalfDied, HalfMoved, HalvesCopied, HalvesPlaced
from litemq.storage.state.transactions.outcomes import Outcome, Outcomes
from litemq.storage.state.transactions.transaction import CheckRound
from litemq.types import RecordKind
from support.delivery_histories import Change, check_snapshot, check_touches

NAMES = [f"tx:shop:{number}@here" for number in range(4)]


def _placed(name: str, at: int, topic_id: int = 16, **more: int) -> HalvesPlaced:
    return HalvesPlaced(name, "", topic_id, 0, at, at, at // 100, 1, 80, at, **more)


def _checked(name: str, at: int, asked: str = "", before: str = "", *, unknown: bool = False) -> Control:
    check = TransactionCheck(transaction=name, asked=asked, before=before, unknown=unknown)
    return Control(transactions_checked=TransactionsChecked(at=at, checks=[check]))


def _dead(name: str, log_offset: int, origin: int) -> PlacedRecord:
    return PlacedRecord(log_offset, RecordKind.DEAD, origin, 20, 0, log_offset // 100, 0, 0, 200, 0, {}, name)


@st.composite
def _histories(draw: st.DrawFn) -> list[Change]:
    history: list[Change] = []
    for at in range(0, draw(st.integers(0, 24)) * 100, 100):
        name = draw(st.sampled_from(NAMES))
        match draw(st.integers(0, 12)):
            case 0:
                history.append(Control(halves_rolled_back=HalvesRolledBack(transactions=[name])))
            case 1:
                history.append(Control(topic_deleted=TopicDeleted(topic_id=draw(st.sampled_from([16, 17])))))
            case 2:
                history.append(Control(transactions_decided=TransactionsDecided(transactions=[name])))
            case 3:
                history.append(_checked(name, at, draw(st.sampled_from(["", "a"])), "b", unknown=draw(st.booleans())))
            case 4 | 5:
                history.append(HalvesCopied(name, 1))
            case 6:
                history.append(HalfMoved(name, draw(st.integers(0, 24)) * 100, at, at // 100))
            case 7:
                history.append(_dead(name, at, draw(st.integers(0, 24)) * 100))
            case 8:
                history.append(Control(halves_skipped=HalvesSkipped(transaction=name, count=1)))
            case _:
                history.append(
                    _placed(name, at, draw(st.sampled_from([16, 17])), check_after_ms=draw(st.sampled_from([0, 7])))
                )
    return history


@settings(deadline=None)
@given(_histories(), st.integers(0, 24))
def test_snapshot_plus_replay_equals_full_replay(history: list[Change], cut: int) -> None:
    def check(loaded: MachineParts, whole: MachineParts) -> None:
        assert (loaded.halves.bytes, loaded.halves.runs) == (whole.halves.bytes, whole.halves.runs)
        assert loaded.halves.first_decided == whole.halves.first_decided
        for at in (500, 1500):
            assert loaded.halves.producers_before(at) == whole.halves.producers_before(at)

    check_snapshot(history, cut, check)


@settings(deadline=None)
@given(_histories())
def test_touched_rows_are_all_changed_rows(history: list[Change]) -> None:
    check_touches(history)


def test_the_first_message_is_the_decision() -> None:
    parts = MachineParts()
    halves, name = parts.halves, NAMES[0]
    for at in (0, 100, 200):
        parts.place(_placed(name, at))
    parts.place(HalvesCopied(name, 1))
    known = halves.get(name)
    assert known is not None
    assert (known.decision_number, known.copied, halves.first_decided) == (1, 1, name)
    parts.apply(Control(halves_rolled_back=HalvesRolledBack(transactions=[name])))
    assert halves.get(name) is known, "a decided transaction is not rolled back"
    parts.place(HalvesCopied(name, 2))
    assert (halves.get(name), halves.outcomes.get(name), halves.bytes, halves.runs) == (None, Outcome.COMMITTED, 0, 0)
    parts.place(HalvesCopied(name, 1))
    assert halves.first_decided is None


def test_the_first_dead_letter_is_the_decision_but_a_carried_one_is_not() -> None:
    parts = MachineParts()
    halves, name = parts.halves, NAMES[0]
    for at in (0, 100):
        parts.place(_placed(name, at))
    parts.place(_dead(name, 200, 0))
    known = halves.get(name)
    assert known is not None
    assert (known.dead, known.copied) == (True, 1)
    parts.place(HalvesCopied(name, 1))
    parts.apply(Control(transactions_decided=TransactionsDecided(transactions=[name])))
    assert (known.decision_number, known.copied) == (0, 1), "a dead transaction is not committed"
    parts.place(_dead(name, 300, 200))  # retention carries the dead letter forward
    assert known.copied == 1
    parts.place(_dead(name, 400, 100))
    assert (halves.get(name), halves.outcomes.get(name)) == (None, Outcome.DEAD)
    assert len(parts.dead_letters) == 2


def test_carried_halves_keep_their_order() -> None:
    parts = MachineParts()
    halves, name = parts.halves, NAMES[0]
    for at in (0, 100, 200):
        parts.place(_placed(name, at))
    assert [run.first_log_offset for _, run in halves.producers_before(200)] == [0, 100]
    parts.place(HalfMoved(name, 0, 300, 3))
    parts.place(HalfMoved(name, 0, 999, 9))  # it is not there any more
    known = halves.get(name)
    assert known is not None
    assert [run.first_log_offset for run in known.left] == [300, 100, 200]
    assert (known.first_log_offset, known.last_log_offset) == (100, 300)
    assert halves.is_at(name, 300)
    assert not halves.is_at(name, 0)
    assert halves.undecided_before(1000) == [], "only transactions of sinks are rolled back"


def test_the_history_records_each_check_round() -> None:
    parts = MachineParts()
    name = NAMES[0]
    parts.place(_placed(name, 5, check_after_ms=7, max_checks=3))
    for number in range(20):
        parts.apply(_checked(name, number, asked="" if number % 2 else "a", before="late", unknown=number == 19))
    known = parts.halves.get(name)
    assert known is not None
    assert (known.first_at, known.check_after_ms, known.max_checks, known.checks, len(known.history)) == (
        5,
        7,
        3,
        20,
        16,
    )
    assert known.history[-2:] == (CheckRound(18, "a", unknown=True), CheckRound(19, ""))
    assert known.history[-3] == CheckRound(17, "late")


def test_deleting_a_topic_drops_its_halves() -> None:
    parts = MachineParts()
    halves = parts.halves
    parts.place(_placed(NAMES[0], 0))
    parts.place(_placed(NAMES[1], 100))
    parts.place(_placed(NAMES[1], 200, 17))
    parts.apply(Control(topic_deleted=TopicDeleted(topic_id=16)))
    assert halves.outcomes.get(NAMES[0]) is Outcome.ROLLED_BACK
    known = halves.get(NAMES[1])
    assert known is not None
    assert (known.dropped, [run.topic_id for run in known.left]) == (1, [17])
    parts.apply(Control(transactions_decided=TransactionsDecided(transactions=[NAMES[1]])))
    parts.place(HalvesCopied(NAMES[1], 1))
    assert halves.outcomes.get(NAMES[1]) is Outcome.COMMITTED


def test_a_sink_transaction_is_decided_by_its_driver_only() -> None:
    parts = MachineParts()
    job = "tx:shop/0/0/0"  # a query may be named so
    parts.place(_placed(job, 0))
    parts.place(HalvesCopied(job, 1))
    parts.halves.apply_event(HalfDied(job))
    parts.apply(Control(transactions_decided=TransactionsDecided(transactions=[job])))
    known = parts.halves.get(job)
    assert known is not None
    assert (known.decision_number, known.copied, known.dead) == (0, 0, False)


def test_the_oldest_outcomes_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "_MAX_PAGES", 3)
    remembered = Outcomes()
    for number in range(1000):
        remembered.add(f"tx:g:{number}@b", Outcome.COMMITTED)
    remembered.add("tx:g:999@b", Outcome.ROLLED_BACK)
    assert remembered.get("tx:g:255@b") is None
    assert remembered.get("tx:g:256@b") is Outcome.COMMITTED
    assert remembered.get("tx:g:999@b") is Outcome.COMMITTED, "the first outcome wins"
    loaded = Outcomes()
    for row in reversed(list(remembered.rows())):
        assert loaded.put(row)
    assert list(loaded.rows()) == list(remembered.rows())
    assert loaded.add("tx:g:x@b", Outcome.DEAD) == remembered.add("tx:g:x@b", Outcome.DEAD)
    assert len(loaded.names()) == 745
