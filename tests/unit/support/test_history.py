"""The checker sees each way in which a history can be wrong."""

from collections.abc import Callable

import pytest

from support.history import History, Name, Outcome, Position, problems


def position(offset: int, queue: int = 0, broker: str = "a") -> Position:
    return broker, queue, offset


def name(number: int, key: str = "k", producer: int = 1) -> Name:
    return Name(producer, key, number)


def good() -> History:
    """Return a history without problems.

    Three messages are acknowledged, one of which was redelivered to a second consumer. Two are
    unknown, one of them stored. One is refused.
    """
    history = History()
    for number in range(6):
        history.begin(name(number))
    for number in range(3):
        history.acked(name(number), position(number))
    history.refused(name(5))
    history.log = [(name(number), position(number)) for number in range(4)]
    for number in range(3):
        history.delivered("g", 0, name(number), position(number))
    for number in range(2, 4):
        history.delivered("g", 1, name(number), position(number))
    return history


def test_a_good_history_has_no_problems() -> None:
    history = good()
    assert problems(history) == []
    assert [history.count(outcome) for outcome in Outcome] == [3, 2, 1]
    assert history.repeated == 1


def test_a_message_whose_durability_does_not_survive_may_be_lost() -> None:
    history = good()
    del history.log[1]
    history.deliveries["g", 0] = []
    history.deliveries["g", 1] = []
    for each, at in history.log:
        history.delivered("g", 2 + each.number, each, at)
    assert len(problems(history)) == 1
    history.unsafe = frozenset({1})
    assert problems(history) == []


def test_a_master_that_was_replaced_acknowledges_nothing() -> None:
    history = good()
    history.unsafe = frozenset({2})
    history.acked_at[name(2)] = 10.0
    late = name(0, producer=2)
    history.begin(late, at=9.0)
    history.acked(late, position(1), at=12.0)
    assert problems(history) == [], "it was sent before a successor acknowledged anything"
    history.sent_at[late] = 11.0
    assert problems(history) == [
        f"I5: {late} was acknowledged at {position(1)} by a master that had been replaced before it was sent"
    ]
    history.receipts[late] = position(3)
    assert problems(history) == [], "its master may have everything that was acknowledged before"
    history.receipts[late] = position(1)
    history.wrong_rates = [(5.0, 11.5)]
    assert problems(history) == []


def test_a_reader_sees_only_what_stays() -> None:
    history = good()
    history.reads["replica"] = [(name(3), position(3)), (name(3), position(3))]
    assert problems(history) == []
    history.reads["replica"] += [(name(4), position(4)), (name(4), position(2))]
    assert [problem[:3] for problem in problems(history)] == ["I2:", "I6:"]


def lose(history: History) -> None:
    del history.log[1]


def store_twice(history: History) -> None:
    history.log.append((name(0), position(4)))


def store_what_was_refused(history: History) -> None:
    history.log.append((name(5), position(4)))


def store_an_unsent_message(history: History) -> None:
    history.log.append((name(99), position(4)))


def acknowledge_another_position(history: History) -> None:
    history.receipts[name(0)] = position(7)


def show_something_else(history: History) -> None:
    history.deliveries["g", 1][0] = (name(4), position(2))


def store_something_else(history: History) -> None:
    history.log.append((name(4), position(2)))


def never_deliver(history: History) -> None:
    for seen in history.deliveries.values():
        seen[:] = [entry for entry in seen if entry[0] != name(2)]


def never_deliver_what_was_unknown(history: History) -> None:
    history.deliveries["g", 1].pop()


def show_what_is_not_stored(history: History) -> None:
    history.delivered("g", 1, name(4), position(4))


def read_backwards(history: History) -> None:
    history.deliveries["g", 0][0:2] = reversed(history.deliveries["g", 0][0:2])


def read_again(history: History) -> None:
    history.deliveries["g", 0].append(history.deliveries["g", 0][-1])


def pass_by(history: History) -> None:
    del history.deliveries["g", 0][1]
    history.delivered("g", 2, name(1), position(1))


def change_the_order(history: History) -> None:
    history.log[0], history.log[1] = (name(1), position(0)), (name(0), position(1))


def spread_a_key(history: History) -> None:
    history.log[3] = (name(3), position(0, queue=1))


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (lose, "I1: .* acknowledged .* not in the log"),
        (store_twice, "I3: .* 2 times"),
        (store_what_was_refused, "was refused, and is in the log"),
        (store_an_unsent_message, "never sent"),
        (acknowledge_another_position, "has a receipt for"),
        (show_something_else, "I2: at .* one reader read"),
        (store_something_else, "I2: at .* one reader read"),
        (never_deliver, "I1: .* never saw it"),
        (never_deliver_what_was_unknown, "I1: .* never saw it"),
        (show_what_is_not_stored, "I2: group g saw .* not in the log"),
        (read_backwards, "I4: consumer 0 of g read"),
        (read_again, "I4: consumer 0 of g read"),
        (pass_by, "I4: consumer 0 of g read"),
        (change_the_order, "I4: .* comes after number 1"),
        (spread_a_key, "I4: key k of producer 1 is in"),
    ],
)
def test_each_problem_is_reported(break_it: Callable[[History], None], problem: str) -> None:
    history = good()
    break_it(history)
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError("\n".join(problems(history)))


def test_without_a_key_order_does_not_matter() -> None:
    history = History()
    for number in (0, 1):
        history.begin(name(number, key=""))
        history.acked(name(number, key=""), position(1 - number))
    history.log = [(name(1, key=""), position(0)), (name(0, key=""), position(1))]
    assert problems(history) == []


def test_only_the_first_problems_of_a_kind_are_listed() -> None:
    history = History()
    for number in range(100):
        history.begin(name(number))
        history.acked(name(number), position(number))
    assert len(problems(history)) == 6
    assert problems(history)[-1] == "… and 95 more of this kind"


def test_a_name_travels_in_a_body() -> None:
    assert Name.from_bytes(name(7).to_bytes() + b" and more") == name(7)
    assert Name.from_bytes(name(7, key="").to_bytes()) == name(7, key="")
