"""Where offsets would be set to, and which reset is undone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.groups.offset_resets import ResetTo, Step, plan, reset_record, to_undo, undo_steps
from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import OffsetsReset
from litemq.storage.state import QueueKey

KEY = QueueKey(16, 0)


def after(to: str, value: int = 0, *, before: int = 50, least: int = 10, following: int = 100) -> int:
    (step,) = plan([(KEY, before, least, following)], to, value, lambda _key, at: at // 10)
    return step.after


def test_where_an_offset_goes() -> None:
    assert after("earliest") == 10
    assert after("latest") == 100
    assert after("timestamp", 420) == 42
    assert after("offset", 77) == 77
    assert after("shift", -5) == 45
    assert after("shift", 5, before=-1) == 15
    with pytest.raises(InvalidArgumentError, match="earliest"):
        after("yesterday")


@given(st.sampled_from(ResetTo), st.integers(-(1 << 62), 1 << 62), st.integers(-1, 200))
def test_only_to_what_there_is(to: ResetTo, value: int, before: int) -> None:
    assert 10 <= after(to, value, before=before) <= 100


def _made(reset_id: str, former: list[OffsetsReset], undoes: str = "") -> OffsetsReset:
    return reset_record("g", reset_id, [Step(KEY, 50, 10, 0, 100)], former, 1, undoes).offsets_reset


def test_what_is_undone() -> None:
    first = _made("one", [])
    second = _made("two", [first])
    assert (first.number, second.number) == (1, 2)
    assert to_undo([first, second], "", 16) is second
    assert to_undo([first, second], "one", 16) is first
    undoing = _made("three", [first, second], "two")
    assert to_undo([first, second, undoing], "", 16) is first
    assert to_undo([first, second, undoing], "three", 16) is undoing
    for resets, reset_id, topic_id in (([first, second, undoing], "two", 16), ([first], "four", 16), ([first], "", 17), ([], "", 16)):
        with pytest.raises(InvalidArgumentError):
            to_undo(resets, reset_id, topic_id)


def test_back_to_what_is_still_there() -> None:
    reset = reset_record(
        "g", "r", [Step(QueueKey(16, n), before, 10, 0, 100) for n, before in enumerate((50, -1, 70))], [], 1
    ).offsets_reset
    current = {QueueKey(16, n): (QueueKey(16, n), 10, 60, 65) for n in range(2)} | {QueueKey(16, 2): (QueueKey(16, 2), 10, 60, 65)}
    assert [step.after for step in undo_steps(reset, current)] == [60, -1, 65]
