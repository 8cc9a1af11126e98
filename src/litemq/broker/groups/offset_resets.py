"""Setting a group's offsets: where each would go, what is written, and how it is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import Control, GroupOffset, OffsetsReset
from litemq.storage.state import QueueKey

__all__ = ["ResetTo", "Step", "plan", "reset_record", "to_undo", "undo_steps"]


class ResetTo(StrEnum):
    """Where offsets may be set to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"
    SHIFT = "shift"


class Step(NamedTuple):
    """One queue's offset before and after; −1: none."""

    key: QueueKey
    before: int
    after: int
    least: int
    next: int


Place = tuple[QueueKey, int, int, int]  # a queue, the group's offset in it, its least and its next


def plan(places: Iterable[Place], to: str, value: int, at_time: Callable[[QueueKey, int], int]) -> list[Step]:
    """Where each offset would go: always to one that the queue has, or will have next."""
    try:
        where = ResetTo(to)
    except ValueError:
        raise InvalidArgumentError(f"to={to!r}: choose one of {', '.join(ResetTo)}") from None
    steps = []
    for key, before, least, following in places:
        match where:
            case ResetTo.EARLIEST:
                after = least
            case ResetTo.LATEST:
                after = following
            case ResetTo.TIMESTAMP:
                after = at_time(key, value)
            case ResetTo.OFFSET:
                after = value
            case ResetTo.SHIFT:
                after = (least if before < 0 else before) + value
        steps.append(Step(key, before, min(max(after, least), following), least, following))
    return steps


def reset_record(
    group: str, reset_id: str, steps: Iterable[Step], former: Iterable[OffsetsReset], now_ms: int, undoes: str = ""
) -> Control:
    """The record that sets the offsets, with what they were."""
    steps = list(steps)
    number = max((reset.number for reset in former), default=0) + 1
    record = OffsetsReset(group=group, reset_id=reset_id, undoes=undoes, number=number, at=now_ms)
    for step in steps:
        where = {"group": group, "topic_id": step.key.topic_id, "queue_id": step.key.queue_id}
        record.before.append(GroupOffset(**where, offset=step.before))  # type: ignore[arg-type]
        record.after.append(GroupOffset(**where, offset=step.after))  # type: ignore[arg-type]
    return Control(offsets_reset=record)


def to_undo(resets: Iterable[OffsetsReset], reset_id: str, topic_id: int) -> OffsetsReset:
    """The reset that is meant: the one of that id, or the latest of the topic that was not undone and does not undo another."""
    resets = [reset for reset in resets if reset.after and reset.after[0].topic_id == topic_id]
    undone = {reset.undoes for reset in resets}
    for reset in reversed(resets):
        if reset_id == reset.reset_id or (not reset_id and not reset.undoes and reset.reset_id not in undone):
            if reset.reset_id in undone:
                raise InvalidArgumentError(f"reset {reset_id!r} was undone before: undo the undoing, whose id `group describe` shows")
            return reset
    if reset_id:
        raise InvalidArgumentError(
            f"there is no reset {reset_id!r} of this topic any more: `litemq group describe` shows those that are kept"
        )
    raise InvalidArgumentError("there is no reset of this topic that could be undone")


def undo_steps(reset: OffsetsReset, current: Mapping[QueueKey, Place]) -> list[Step]:
    """Back to where the offsets were, as far as that is still there."""
    steps = []
    for told in reset.before:
        key = QueueKey(told.topic_id, told.queue_id)
        if key in current:
            _, offset, least, following = current[key]
            after = told.offset if told.offset < 0 else min(max(told.offset, least), following)
            steps.append(Step(key, offset, after, least, following))
    return steps
