"""Offset resets: plans, and the reset to undo."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.groups.offset_resets import ResetTo, Step, find_reset, plan, reset_record, undo_steps
from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import OffsetsReset
from litemq.storage.state import QueueKey

KEY = QueueKey(16, 0)


def after(to: str, value: int = 0, *, before: int = 50, least: int = 10, following: int = 100) -> int:
    (step,) = plan([(KEY, before, least, following)], to, value, lambda _key, at: at // 10)
    return step.after


def test_the_plan_of_each_target() -> None:
    assert after("earliest") == 10
    assert after("latest") == 100
    assert after("timestamp", 420) == 42
    assert after("offset", 77) == 77
    assert after("shift", -5) == 45
    assert after("shift", 5, before=-1) == 15
    with pytest.raises(InvalidArgumentError, match="earliest"):
        after("yesterday")


@given(st.sampled_from(ResetTo), st.integers(-(1 << 62), 1 << 62), st.integers(-1, 200))
def test_a_plan_stays_within_the_range_of_the_queue(to: ResetTo, value: int, before: int) -> None:
    assert 10 <= after(to, value, before=before) <= 100


def _reset(reset_id: str, former: list[OffsetsReset], undoes: str = "") -> OffsetsReset:
    return reset_record("g", reset_id, [Step(KEY, 50, 10, 0, 100)], former, 1, undoes).offsets_reset


def test_the_reset_to_undo() -> None:
    first = _reset("one", [])
    second = _reset("two", [first])
    assert (first.number, second.number) == (1, 2)
    assert find_reset([first, second], "", 16) is second
    assert find_reset([first, second], "one", 16) is first
    undoing = _reset("three", [first, second], "two")
    assert find_reset([first, second, undoing], "", 16) is first
    assert find_reset([first, second, undoing], "three", 16) is undoing
    for resets, reset_id, topic_id in (
        ([first, second, undoing], "two", 16),
        ([first], "four", 16),
        ([first], "", 17),
        ([], "", 16),
    ):
        with pytest.raises(InvalidArgumentError):
            find_reset(resets, reset_id, topic_id)


def test_an_undo_is_limited_to_the_range_of_the_queue() -> None:
    reset = reset_record(
        "g", "r", [Step(QueueKey(16, n), before, 10, 0, 100) for n, before in enumerate((50, -1, 70))], [], 1
    ).offsets_reset
    current = {QueueKey(16, n): (QueueKey(16, n), 10, 60, 65) for n in range(2)} | {
        QueueKey(16, 2): (QueueKey(16, 2), 10, 60, 65)
    }
    assert [step.after for step in undo_steps(reset, current)] == [60, -1, 65]
