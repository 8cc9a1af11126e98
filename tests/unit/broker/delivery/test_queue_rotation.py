"""Queue rotation: strict or by weight, without starvation."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.delivery.queue_rotation import STARVED_AFTER, QueueRotation
from litemq.types import PRIORITY_CLASSES, priority_class


class Queues:
    """Queues with a number of messages each, and a ``take`` callback."""

    def __init__(self, ready: dict[int, int]) -> None:
        self.ready = ready
        self.taken: list[int] = []  # the queue of each

    def take(self, queue_id: int, most: int) -> int:
        assert most > 0
        got = min(most, self.ready.get(queue_id, 0))
        self.ready[queue_id] = self.ready.get(queue_id, 0) - got
        self.taken += [queue_id] * got
        return got


READY = st.dictionaries(st.integers(0, 31), st.integers(0, 50))


@given(READY, st.integers(1, 200), st.booleans(), st.booleans())
def test_take_returns_all_messages_up_to_the_limit(
    ready: dict[int, int], most: int, has_priorities: bool, weighted: bool
) -> None:
    queues = Queues(dict(ready))
    rotation = QueueRotation(32, has_priorities=has_priorities, weighted=weighted)
    assert rotation.take(most, queues.take) == len(queues.taken) == min(most, sum(ready.values()))


@given(READY, st.lists(st.integers(1, 40), max_size=10))
def test_strict_takes_the_highest_class_first(ready: dict[int, int], sizes: list[int]) -> None:
    queues = Queues(dict(ready))
    rotation = QueueRotation(32, has_priorities=True)
    for size in sizes:
        rotation.take(size, queues.take)
    classes = [queue_id % PRIORITY_CLASSES for queue_id in queues.taken]
    assert classes == sorted(classes, reverse=True)


@pytest.mark.parametrize("size", [1, 7, 32, 256])
def test_a_starving_class_waits_for_a_bounded_number_of_others(size: int) -> None:
    queues = Queues({0: 50, 7: 10**6})
    rotation = QueueRotation(8, has_priorities=True)
    while queues.ready[0]:
        rotation.take(size, queues.take)
    places = [at for at, queue_id in enumerate(queues.taken) if queue_id == 0]
    gaps = [later - earlier for earlier, later in zip([0, *places], places, strict=False)]
    assert max(gaps) <= STARVED_AFTER + 2 * size
    assert places[0] >= STARVED_AFTER  # and the others do come first


@pytest.mark.parametrize("size", [1, 5, 64])
def test_classes_get_messages_by_weight(size: int) -> None:
    queues = Queues(dict.fromkeys(range(8), 10**6))
    rotation = QueueRotation(8, has_priorities=True, weighted=True)
    for _ in range(36_000 // size):
        rotation.take(size, queues.take)
    counts = Counter(queues.taken)
    for number in range(8):
        assert counts[number] == pytest.approx(1000 * (number + 1), rel=0.05)


def test_an_empty_class_saves_up_no_share() -> None:
    queues = Queues({0: 10**6})
    rotation = QueueRotation(8, has_priorities=True, weighted=True)
    for _ in range(10_000):
        rotation.take(1, queues.take)
    queues.ready[7] = 10**6
    queues.taken.clear()
    for _ in range(90):
        rotation.take(1, queues.take)
    assert Counter(queues.taken)[0] == pytest.approx(10, abs=2)


def test_each_queue_is_first_in_turn() -> None:
    rotation = QueueRotation(4)
    queues = Queues(dict.fromkeys(range(4), 10))
    for _ in range(8):
        rotation.take(1, queues.take)
    assert queues.taken == [0, 1, 2, 3] * 2


def test_none_ends_the_rotation() -> None:
    rotation = QueueRotation(16, has_priorities=True)
    calls = []

    def take(queue_id: int, most: int) -> int | None:
        calls.append(queue_id)
        return 1 if len(calls) == 1 else None

    assert rotation.take(10, take) == 1
    assert calls == [7, 15]


def test_priorities_map_to_classes() -> None:
    assert [priority_class(priority) for priority in (0, 31, 32, 128, 223, 224, 255)] == [0, 0, 1, 4, 6, 7, 7]
