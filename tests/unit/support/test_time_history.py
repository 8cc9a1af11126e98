"""The checker sees each way in which a history of timers, ticks and transactions can be wrong."""

from collections.abc import Callable

import pytest

from support.history import Outcome
from support.time_history import (
    Delivered,
    Fate,
    JobHistory,
    Stamps,
    TimeHistory,
    TimerHistory,
    TransactionHistory,
    time_problems,
)


def good() -> TimeHistory:
    """Return timers of every outcome, two jobs, and transactions of each state."""
    acked, unknown = Outcome.ACKED, Outcome.UNKNOWN
    history = TimeHistory(late_within_ms=500)
    history.timers = {
        "plain": TimerHistory(1000, acked),
        "unknown": TimerHistory(1000, unknown),
        "unknown and stored": TimerHistory(1000, unknown),
        "refused": TimerHistory(1000, Outcome.REFUSED),
        "cancelled": TimerHistory(1000, acked, cancelled=Fate.DONE),
        "cancelled too late": TimerHistory(1000, acked, cancelled=Fate.TOO_LATE),
        "perhaps cancelled": TimerHistory(1000, acked, cancelled=Fate.UNKNOWN),
        "of a cancelled batch": TimerHistory(1000, acked, never_after=1200),
        "on its way when its batch was cancelled": TimerHistory(1000, acked, is_between=True),
        "the same, and cancelled too late": TimerHistory(1000, acked, cancelled=Fate.TOO_LATE, is_between=True),
        "moved": TimerHistory(1000, acked, [(5000, Fate.DONE), (3000, Fate.DONE)]),
        "perhaps moved": TimerHistory(1000, acked, [(500, Fate.TOO_LATE), (3000, Fate.UNKNOWN)]),
    }
    came = {"plain": 1000, "unknown and stored": 1001, "cancelled too late": 1400, "moved": 3000, "perhaps moved": 3100}
    came["the same, and cancelled too late"] = 1300
    history.timer_log = [Delivered(name, at) for name, at in came.items()]
    history.jobs = {"all": JobHistory(True, [10, 20]), "some": JobHistory(False, [10, 20])}
    history.tick_log = [("all", 10, 10), ("all", 20, 500), ("some", 20, 25)]
    history.transactions = {
        "counts": TransactionHistory(2, truth=True, decided_at=50),
        "does not": TransactionHistory(1, truth=False, decided_at=50),
        "undecided": TransactionHistory(1),
    }
    history.transaction_log = [("counts", 0), ("counts", 1)]
    history.sightings = [("counts", 60), ("counts", 50)]
    return history


def test_a_good_history_has_no_problems() -> None:
    assert time_problems(good()) == []


def test_the_stamp_of_a_wrong_clock_is_not_compared_with_the_clock_of_the_test() -> None:
    history = good()
    history.timer_log.append(Delivered("of a cancelled batch", 1300))
    assert len(time_problems(history)) == 1
    history.wrong_stamps = [Stamps(1250, 1350)]
    assert time_problems(history) == []
    history.timer_log.append(Delivered("moved", 2000))
    assert len(time_problems(history)) == 2, "it comes twice, and early by the clock of its broker"


def _log(name: str, at: int = 1100) -> Callable[[TimeHistory], object]:
    return lambda history: history.timer_log.append(Delivered(name, at))


def _change(name: str, at: int) -> Callable[[TimeHistory], object]:
    def change(history: TimeHistory) -> None:
        history.timer_log = [
            Delivered(each.name, at if each.name == name else each.stored_at) for each in history.timer_log
        ]

    return change


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda history: history.timer_log.pop(0), "never came"),
        (lambda history: history.timer_log.pop(2), "never came"),  # it was said to be too late to cancel it
        (lambda history: history.timer_log.pop(5), "never came"),  # the same
        (_log("plain"), "came 2 times"),
        (_log("nobody's"), "never sent"),
        (_log("refused"), "was refused, and came"),
        (_log("cancelled"), "was cancelled, and came"),
        (_log("of a cancelled batch", 1300), "batch"),
        (_log("on its way when its batch was cancelled", 999), "1 ms early"),
        (_change("plain", 999), "1 ms early"),
        (_change("plain", 1501), "501 ms late"),
        (_change("moved", 2999), "1 ms early"),
        (_change("perhaps moved", 999), "1 ms early"),
        (_change("perhaps moved", 3501), "501 ms late"),
        (lambda history: history.tick_log.append(("some", 20, 30)), "tick 20 of job some came 2 times"),
        (lambda history: history.tick_log.append(("some", 30, 29)), "1 ms early"),
        (lambda history: history.tick_log.append(("some", 30, 531)), "501 ms late"),
        (lambda history: history.tick_log.append(("other", 30, 30)), "job other was never created"),
        (lambda history: history.tick_log.pop(1), "tick 20 of job all, which catches up, never came"),
        (lambda history: history.transaction_log.append(("does not", 0)), "does not count"),
        (lambda history: history.transaction_log.append(("undecided", 0)), "is undecided"),
        (lambda history: history.transaction_log.append(("other", 0)), "was never begun"),
        (lambda history: history.transaction_log.append(("counts", 0)), "is there 2 times"),
        (lambda history: history.transaction_log.pop(), "1 of 2 messages"),
        (lambda history: history.sightings.append(("counts", 49)), "before it was decided"),
        (lambda history: history.sightings.append(("undecided", 999)), "before it was decided"),
    ],
)
def test_each_problem_is_seen(spoil: Callable[[TimeHistory], object], said: str) -> None:
    history = good()
    spoil(history)
    (problem,) = time_problems(history)
    assert said in problem


def test_many_of_a_kind_are_counted() -> None:
    history = good()
    history.timers.update((f"t{number}", TimerHistory(0, Outcome.ACKED)) for number in range(9))
    assert time_problems(history)[-1] == "… and 4 more of this kind"
