"""Key order: a failed message blocks its own key only."""

from collections import defaultdict

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from litemq.client.consuming.key_order import KeyOrder


def _all(order: KeyOrder[int, str]) -> list[str]:
    taken = []
    while (message := order.take()) is not None:
        taken.append(message[1])
    return taken


def test_a_failing_message_holds_its_key_only() -> None:
    order: KeyOrder[int, str] = KeyOrder(100)
    for message in ("a1", "b1", "a2", "b2", "a3"):
        order.add(0, message[0], message)
    assert _all(order) == ["a1", "b1"]
    order.failed(0, "a", "a1", "a1", due=10.0)
    order.settled(0, "b", "b1")
    assert _all(order) == ["b2"]
    assert order.wake(9.9) == 10.0
    assert _all(order) == []
    assert order.wake(10.0) is None
    assert _all(order) == ["a1"]
    order.settled(0, "a", "a1")
    assert _all(order) == ["a2"]
    order.settled(0, "a", "a1")  # it was settled before: nothing happens
    assert _all(order) == []


def test_without_keys_there_is_one_order() -> None:
    order: KeyOrder[int, str] = KeyOrder(100)
    for message in "123":
        order.add(0, "", message)
    assert _all(order) == ["1"]
    order.failed(0, "", "1", "1 again", 5.0)
    order.wake(5.0)
    assert _all(order) == ["1 again"]
    order.settled(0, "", "1 again")
    assert _all(order) == ["2"]


def test_a_queue_that_holds_too_many_is_full_and_others_are_not() -> None:
    order: KeyOrder[int, str] = KeyOrder(2)
    for message in ("a1", "a2", "b1"):
        order.add(0, message[0], message)
    assert not order.is_full(0)
    order.add(0, "a", "a3")
    assert order.is_full(0)
    assert not order.is_full(1)
    order.take()
    order.settled(0, "a", "a1")
    assert not order.is_full(0)


def test_a_queue_that_was_dropped_gives_nothing() -> None:
    order: KeyOrder[int, str] = KeyOrder(100)
    for queue in (0, 1):
        order.add(queue, "a", f"a1 of {queue}")
        order.add(queue, "a", f"a2 of {queue}")
    order.add(0, "b", "b1 of 0")
    assert order.take() == (0, "a1 of 0")
    order.failed(0, "a", "a1 of 0", "a1 of 0", 1.0)
    assert order.drop(0) == ["a1 of 0", "a2 of 0", "b1 of 0"]
    assert order.wake(2.0) is None
    assert _all(order) == ["a1 of 1"]
    order.settled(0, "a", "a1 of 0")  # comes too late
    assert order.held(0) == 0
    assert order.held(1) == 1


def test_a_delivered_message_stays_first_when_its_queue_is_dropped() -> None:
    order: KeyOrder[int, str] = KeyOrder(100)
    for message in ("a1", "a2", "b1"):
        order.add(0, message[0], message)
    assert order.take() == (0, "a1")
    assert order.drop(0, lambda message: message == "a1") == ["a2", "b1"]
    assert order.take() is None
    order.add(0, "a", "a2")  # fetched again
    assert order.take() is None
    order.settled(0, "a", "a1")
    assert order.take() == (0, "a2")


class OrderMachine(RuleBasedStateMachine):
    """Any order of coming, being taken, failing and being settled."""

    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.order: KeyOrder[int, tuple[int, str, int]] = KeyOrder(3)
        self.now = 0.0
        self.sent: dict[tuple[int, str], int] = defaultdict(int)
        self.done: dict[tuple[int, str], int] = defaultdict(int)
        self.taken: set[tuple[int, str]] = set()
        self.waiting: dict[tuple[int, str], float] = {}

    @rule(queue=st.integers(0, 1), key=st.sampled_from(["", "a", "b"]))
    def comes(self, queue: int, key: str) -> None:
        if not self.order.is_full(queue):
            self.order.add(queue, key, (queue, key, self.sent[queue, key]))
            self.sent[queue, key] += 1

    @rule(target=running)
    def is_taken(self) -> tuple[int, str, int] | None:
        taken = self.order.take()
        if taken is None:
            # If nothing can be taken, each lane's first message is delivered or waits for a retry.
            for lane, sent in self.sent.items():
                assert sent == self.done[lane] or lane in self.taken or lane in self.waiting
            return None
        message = taken[1]
        queue, key, number = message
        assert taken[0] == queue
        assert (queue, key) not in self.taken  # one of a key at a time
        assert number == self.done[queue, key]  # and in order
        assert (queue, key) not in self.waiting
        self.taken.add((queue, key))
        return message

    @rule(message=consumes(running), delay=st.none() | st.floats(0, 10))
    def ends(self, message: tuple[int, str, int] | None, delay: float | None) -> None:
        if message is None:
            return
        queue, key, _ = message
        self.taken.discard((queue, key))
        if delay is None:
            self.order.settled(queue, key, message)
            self.done[queue, key] += 1
        else:
            self.order.failed(queue, key, message, message, self.now + delay)
            self.waiting[queue, key] = self.now + delay

    @rule(step=st.floats(0, 5))
    def time_passes(self, step: float) -> None:
        self.now += step
        following = self.order.wake(self.now)
        self.waiting = {lane: due for lane, due in self.waiting.items() if due > self.now}
        assert following == min(self.waiting.values(), default=None)

    @invariant()
    def what_is_held_is_bounded(self) -> None:
        for queue in (0, 1):
            unsettled = [self.sent[lane] - self.done[lane] for lane in self.sent if lane[0] == queue]
            assert self.order.held(queue) == sum(max(0, each - 1) for each in unsettled) <= 3


TestOrderMachine = OrderMachine.TestCase
