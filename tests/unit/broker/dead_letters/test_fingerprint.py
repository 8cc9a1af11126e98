"""Fingerprints: the same for errors with the same cause, whatever the message."""

import traceback

from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.dead_letters.fingerprint import error_fingerprint
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


def _fingerprint(error: str, stack: str = "", reason: DeadReason = DeadReason.MAX_RETRY, detail: str = "") -> str:
    return error_fingerprint(reason, detail, error, stack)


def test_lines_and_values_do_not_count_but_functions_do() -> None:
    one, other = _caught(_charge, 5), _caught(_charge, 50)
    assert one[1] != other[1]  # other lines of the same functions
    assert _fingerprint(*one) == _fingerprint(*other)
    assert _fingerprint(*one) != _fingerprint(*_caught(_refuse, 5))


def test_the_directory_of_the_installation_does_not_count() -> None:
    stack = (
        'Traceback (most recent call last):\n  File "{}/shop/billing.py", line {}, in charge\n    x\nValueError: {}\n'
    )
    one = stack.format("/usr/lib/python3.11/site-packages", 10, "bad amount 3")
    other = stack.format("/home/ann/venv/lib/site-packages", 12, "bad amount 4")
    assert _fingerprint("ValueError: bad amount 3", one) == _fingerprint("shop.errors.ValueError: bad amount 4", other)
    assert _fingerprint("ValueError: bad amount 3", one) != _fingerprint("KeyError: 3", one)


def test_without_a_stack_the_error_text_counts() -> None:
    assert _fingerprint("ValueError: order 17 of 'ann' is bad") == _fingerprint("ValueError: order 204 of 'bob' is bad")
    assert _fingerprint("no row 1f6c9d5e-9c4b-4e3c-8f6e-0a4a3c9f1c2d") == _fingerprint(
        "no row 7a6c9d5e-9c4b-4e3c-8f6e-0a4a3c9f1c2d"
    )
    assert _fingerprint("ValueError: order 17 is bad") != _fingerprint("ValueError: order 17 is late")


def test_without_error_and_stack_the_reason_counts() -> None:
    assert _fingerprint("", reason=DeadReason.TTL_EXPIRED) != _fingerprint("", reason=DeadReason.QUEUE_FULL)
    assert _fingerprint("ValueError: x", reason=DeadReason.MAX_RETRY) == _fingerprint(
        "ValueError: x", reason=DeadReason.CONSUME_ERROR
    )
    assert _fingerprint("", detail="timeout") != _fingerprint("")


def test_undecodable_messages_have_one_fingerprint_per_error_type() -> None:
    one = _fingerprint("SerializationError: bad byte 3", "a stack", detail=UNDECODABLE)
    assert one == _fingerprint("SerializationError: truncated", "another", detail=UNDECODABLE)
    assert one != _fingerprint("SerializationError: bad byte 3", "a stack")


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=20))
def test_any_text_has_a_fingerprint(error: str, stack: str, detail: str) -> None:
    found = _fingerprint(error, stack, detail=detail)
    assert len(found) == 12
    assert found == _fingerprint(error, stack, detail=detail)


def test_a_hostile_stack_is_fingerprinted_quickly() -> None:
    """The fingerprint reads up to 32 Ki characters, and no pattern backtracks."""
    assert len(_fingerprint("a" * 100_000, 'File "' * 100_000)) == 12
    assert len(_fingerprint("'" * 100_000, '  File "x", line 1, in f\n' * 100_000)) == 12
