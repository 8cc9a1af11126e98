"""The handler breaker: if most calls fail, it pauses, then probes with one call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client.handlers.breaker import FailureLimits, HandlerBreaker, HandlerState
from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError

LIMITS = FailureLimits(failure_share=0.8, window=60, least_calls=10, pause=60)


class Handler:
    """A handler's calls, by a manual clock."""

    def __init__(self, limits: FailureLimits = LIMITS) -> None:
        self.clock = FakeClock()
        self.breaker = HandlerBreaker(limits)

    def is_in(self, state: HandlerState) -> bool:
        return self.breaker.state is state

    @property
    def now(self) -> float:
        return self.clock.elapsed_ns() / 1e9

    def wait(self) -> float | None:
        return self.breaker.wait(self.now)

    def call(self, *, fails: bool) -> None:
        assert self.wait() == 0
        turn = self.breaker.begin()
        (self.breaker.failed if fails else self.breaker.succeeded)(turn, self.now)


def paused() -> Handler:
    handler = Handler()
    for _ in range(10):
        handler.call(fails=True)
    assert handler.is_in(HandlerState.PAUSED)
    return handler


def test_failures_of_more_than_the_share_pause_it() -> None:
    handler = Handler()
    for number in range(50):
        handler.call(fails=number % 5 != 0)  # 80%
    assert handler.is_in(HandlerState.RUNNING)
    handler.call(fails=True)
    assert handler.is_in(HandlerState.PAUSED)
    assert handler.wait() == 60


def test_few_calls_say_nothing() -> None:
    handler = Handler()
    for _ in range(9):
        handler.call(fails=True)
    assert handler.wait() == 0
    handler.clock.advance(61)  # nor do those that are long ago
    for _ in range(9):
        handler.call(fails=True)
    assert handler.wait() == 0


def test_after_the_pause_one_call_decides() -> None:
    handler = paused()
    handler.clock.advance(59.9)
    assert handler.wait() == pytest.approx(0.1)
    handler.clock.advance(0.1)
    assert handler.wait() == 0
    turn = handler.breaker.begin()
    assert handler.wait() is None  # no second probe
    handler.breaker.failed(turn, handler.now)
    assert handler.wait() == 60
    handler.clock.advance(60)
    handler.call(fails=False)
    assert handler.is_in(HandlerState.RUNNING)
    for _ in range(8):
        handler.call(fails=True)  # a new count, which includes the successful call
    assert handler.wait() == 0


def test_calls_from_before_do_not_decide() -> None:
    handler = Handler()
    slow = [handler.breaker.begin() for _ in range(3)]
    for _ in range(10):
        handler.call(fails=True)
    handler.breaker.succeeded(slow[0], handler.now)
    assert handler.is_in(HandlerState.PAUSED)
    handler.clock.advance(60)
    assert handler.wait() == 0
    handler.breaker.begin()
    handler.breaker.succeeded(slow[1], handler.now)
    handler.breaker.failed(slow[2], handler.now)
    handler.breaker.forget(slow[2])
    assert handler.is_in(HandlerState.PROBING)
    assert handler.wait() is None


def test_a_probe_that_says_nothing_is_followed_by_another() -> None:
    handler = paused()
    handler.clock.advance(60)
    assert handler.wait() == 0
    handler.breaker.forget(handler.breaker.begin())
    handler.call(fails=False)
    assert handler.is_in(HandlerState.RUNNING)


@pytest.mark.parametrize(
    "wrong", [{"failure_share": 1.0}, {"failure_share": -0.1}, {"pause": 0.0}, {"window": 0.0}, {"least_calls": 0}]
)
def test_limits_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        FailureLimits(**wrong)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 30))))
def test_it_always_runs_again(history: list[tuple[bool, float]]) -> None:
    """After any history, a handler that works from now on is running after two pauses."""
    handler = Handler()
    for fails, passed in history:
        handler.clock.advance(passed)
        if handler.wait() == 0:
            handler.call(fails=fails)
        else:
            assert handler.is_in(HandlerState.PAUSED)
    handler.clock.advance(60)
    handler.call(fails=False)
    assert handler.is_in(HandlerState.RUNNING)
