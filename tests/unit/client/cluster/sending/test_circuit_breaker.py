"""The circuit breaker, with explicit times."""

from litemq.client.cluster.sending.circuit_breaker import BreakerState, CircuitBreaker


def state(breaker: CircuitBreaker) -> BreakerState:
    return breaker.state


def test_it_opens_when_more_than_half_fail_and_closes_after_a_probe() -> None:
    breaker = CircuitBreaker()
    for n in range(9):
        breaker.failed(float(n) / 10)
    assert breaker.is_closed  # too few requests to judge
    breaker.failed(1.0)
    assert state(breaker) is BreakerState.OPEN
    assert not breaker.may_send(30.9)
    assert breaker.may_send(31.0)
    assert state(breaker) is BreakerState.HALF_OPEN
    assert not breaker.may_send(31.1)  # one probe at a time
    breaker.succeeded(0.01, 31.2)
    assert breaker.is_closed
    assert breaker.may_send(31.3)


def test_half_is_not_more_than_half() -> None:
    breaker = CircuitBreaker()
    for _ in range(10):
        breaker.succeeded(0.01, 1.0)
    for _ in range(10):
        breaker.failed(1.0)
    assert breaker.is_closed
    breaker.failed(1.0)
    assert state(breaker) is BreakerState.OPEN


def test_a_probe_that_fails_opens_it_again() -> None:
    breaker = CircuitBreaker()
    for _ in range(10):
        breaker.failed(0.0)
    assert breaker.may_send(30.0)
    breaker.failed(30.1)
    assert state(breaker) is BreakerState.OPEN
    assert not breaker.may_send(60.0)
    assert breaker.may_send(60.1)
    breaker.succeeded(1.5, 60.2)  # a slow answer is not a success
    assert state(breaker) is BreakerState.OPEN


def test_an_older_send_that_succeeds_closes_it() -> None:
    breaker = CircuitBreaker()
    for _ in range(10):
        breaker.failed(0.0)
    breaker.succeeded(1.5, 2.0)  # slow answers prove nothing
    assert state(breaker) is BreakerState.OPEN
    breaker.succeeded(0.01, 3.0)  # the broker was restarted, and took a waiting request
    assert breaker.is_closed
    assert breaker.may_send(3.0)


def test_it_opens_when_answers_take_too_long() -> None:
    breaker = CircuitBreaker()
    breaker.succeeded(1.2, 0.0, 9)
    assert breaker.is_closed
    breaker.succeeded(1.2, 0.1)
    assert state(breaker) is BreakerState.OPEN


def test_failures_outside_the_window_do_not_count() -> None:
    breaker = CircuitBreaker()
    for _ in range(9):
        breaker.failed(0.0)
    breaker.failed(10.1)
    assert breaker.is_closed
