"""The same error has the same fingerprint, whichever message it happened to."""

import traceback

from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.dead_letters.fingerprint import fingerprint_of
from litemq.format.dead_letters import UNDECODABLE
from litemq.types import DeadReason


def _caught(function: object, *arguments: object) -> tuple[str, str]:
    try:
        function(*arguments)  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
    raise AssertionError("it did not raise")


def _divide(amount: int) -> float:
    return amount / 0


def _charge(amount: int) -> float:
    if amount > 10:
        return _divide(amount)
    return _divide(amount + 1)


def _refuse(amount: int) -> None:
    raise ZeroDivisionError(f"{amount} is nothing to divide")


def _of(error: str, stack: str = "", reason: DeadReason = DeadReason.MAX_RETRY, detail: str = "") -> str:
    return fingerprint_of(reason, detail, error, stack)


def test_lines_and_values_do_not_matter_but_functions_do() -> None:
    one, other = _caught(_charge, 5), _caught(_charge, 50)
    assert one[1] != other[1]  # other lines of the same functions
    assert _of(*one) == _of(*other)
    assert _of(*one) != _of(*_caught(_refuse, 5))


def test_where_it_is_installed_does_not_matter() -> None:
    stack = 'Traceback (most recent call last):\n  File "{}/shop/billing.py", line {}, in charge\n    x\nValueError: {}\n'
    one = stack.format("/usr/lib/python3.11/site-packages", 10, "bad amount 3")
    other = stack.format("/home/ann/venv/lib/site-packages", 12, "bad amount 4")
    assert _of("ValueError: bad amount 3", one) == _of("shop.errors.ValueError: bad amount 4", other)
    assert _of("ValueError: bad amount 3", one) != _of("KeyError: 3", one)


def test_without_a_stack_the_text_stands_for_it() -> None:
    assert _of("ValueError: order 17 of 'ann' is bad") == _of("ValueError: order 204 of 'bob' is bad")
    assert _of("no row 1f6c9d5e-9c4b-4e3c-8f6e-0a4a3c9f1c2d") == _of("no row 7a6c9d5e-9c4b-4e3c-8f6e-0a4a3c9f1c2d")
    assert _of("ValueError: order 17 is bad") != _of("ValueError: order 17 is late")


def test_where_nothing_is_known_the_reason_is() -> None:
    assert _of("", reason=DeadReason.TTL_EXPIRED) != _of("", reason=DeadReason.QUEUE_FULL)
    assert _of("ValueError: x", reason=DeadReason.MAX_RETRY) == _of("ValueError: x", reason=DeadReason.CONSUME_ERROR)
    assert _of("", detail="timeout") != _of("")


def test_undecodable_ones_are_one_kind_of_error_a_type() -> None:
    one = _of("SerializationError: bad byte 3", "a stack", detail=UNDECODABLE)
    assert one == _of("SerializationError: truncated", "another", detail=UNDECODABLE)
    assert one != _of("SerializationError: bad byte 3", "a stack")


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=20))
def test_any_text_has_one(error: str, stack: str, detail: str) -> None:
    found = _of(error, stack, detail=detail)
    assert len(found) == 12
    assert found == _of(error, stack, detail=detail)


def test_a_hostile_stack_takes_no_time() -> None:
    """Thirty-two thousand characters are looked at, and no pattern goes back over them again and again."""
    assert len(_of("a" * 100_000, 'File "' * 100_000)) == 12
    assert len(_of("'" * 100_000, '  File "x", line 1, in f\n' * 100_000)) == 12
