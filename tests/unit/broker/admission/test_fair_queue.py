"""The fair queue of sends: small senders pass, large ones share."""

from __future__ import annotations

from typing import Any

from litemq.broker.admission.fair_queue import FREE_BYTES, FairQueue
from litemq.net.frame import Frame

MANY = 128 << 20
ANN: Any = "ann"
BOB: Any = "bob"
EVE: Any = "eve"


def waiting(caller: Any, size: int, number: int = 0) -> Any:
    return caller, Frame(number, 16, 0, b"", bytes(size)), 0, 0


def test_no_request_waits_below_the_free_bytes() -> None:
    fair_queue = FairQueue(MANY)
    fair_queue.may_pass(BOB, 1, 0, now=0)
    assert all(fair_queue.may_pass(ANN, 1 << 20, FREE_BYTES, now=0) for _ in range(10))


def test_each_caller_may_add_its_share_until_the_disk_has_caught_up() -> None:
    fair_queue = FairQueue(MANY)
    assert fair_queue.may_pass(BOB, 1000, 2 * FREE_BYTES, now=0)
    assert fair_queue.may_pass(ANN, 200_000, 2 * FREE_BYTES, now=0)
    assert not fair_queue.may_pass(ANN, 200_000, 2 * FREE_BYTES, now=0)
    assert fair_queue.may_pass(BOB, 1000, 2 * FREE_BYTES, now=0)
    fair_queue.take_next(now=0)
    assert fair_queue.may_pass(ANN, 200_000, 2 * FREE_BYTES, now=0)


def test_a_lone_caller_may_fill_the_log() -> None:
    fair_queue = FairQueue(MANY)
    assert fair_queue.may_pass(ANN, 1 << 20, MANY, now=0)
    assert not fair_queue.may_pass(ANN, 1 << 20, MANY + 1, now=0)
    fair_queue.may_pass(BOB, 1, 0, now=1)
    assert not fair_queue.may_pass(ANN, 1 << 20, MANY, now=1.9)
    assert fair_queue.may_pass(ANN, 1 << 20, MANY, now=2.1)


def test_requests_of_a_waiting_caller_keep_their_order() -> None:
    fair_queue = FairQueue(MANY)
    assert fair_queue.join(waiting(ANN, 10))
    assert not fair_queue.may_pass(ANN, 1, 0, now=0)


def test_callers_get_the_same_share() -> None:
    fair_queue = FairQueue(MANY)
    for number in range(100):
        fair_queue.join(waiting(ANN, 100_000, number))
    for number in range(100):
        fair_queue.join(waiting(BOB, 1_000, number))
    fair_queue.join(waiting(EVE, 5 << 20))
    taken = fair_queue.take_next(now=0)
    assert [entry[1].correlation for entry in taken if entry[0] == ANN] == list(range(3))
    assert [entry[1].correlation for entry in taken if entry[0] == BOB] == list(range(100))
    assert sum(1 for entry in taken if entry[0] == EVE) == 1, "one that is larger than any share is not kept for ever"


def test_each_caller_gets_its_requests_back_in_order() -> None:
    fair_queue = FairQueue(MANY)
    for number in range(1000):
        fair_queue.join(waiting(ANN, 3000, number))
    taken: list[int] = []
    rounds = 0
    while not fair_queue.is_empty:
        taken += [entry[1].correlation for entry in fair_queue.take_next(now=0)]
        rounds += 1
    assert taken == list(range(1000))
    assert rounds == 3
    assert fair_queue.size == 0


def test_a_queue_is_bounded() -> None:
    fair_queue = FairQueue(MANY)
    joined = 0
    while fair_queue.join(waiting(ANN, 1 << 20)):
        joined += 1
    assert joined == 32
    assert fair_queue.join(waiting(BOB, 1 << 20)), "callers have queues of their own"
    assert fair_queue.size == 33 << 20


def test_all_queues_together_are_bounded() -> None:
    fair_queue = FairQueue(4 << 20)
    for caller in ("a", "b", "c", "d", "e"):
        while fair_queue.join(waiting(caller, 1 << 19)):
            pass
    assert fair_queue.size <= 12 << 20


def test_a_message_larger_than_the_queue_limit_is_taken_alone() -> None:
    fair_queue = FairQueue(MANY)
    assert fair_queue.join(waiting(ANN, 40 << 20))
    assert not fair_queue.join(waiting(ANN, 1))


def test_forget_drops_the_queue_of_a_caller() -> None:
    fair_queue = FairQueue(MANY)
    fair_queue.join(waiting(ANN, 10))
    fair_queue.forget(ANN)
    assert fair_queue.is_empty
    assert fair_queue.take_next(now=0) == []
