"""Offset resets: the plan, the record that sets the offsets, and the undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from litemq.errors import InvalidArgumentError, ResetNotFoundError
from litemq.proto.control_pb2 import Control, GroupOffset, OffsetsReset
from litemq.storage.state import QueueKey

__all__ = ["QueuePosition", "ResetTo", "Step", "find_reset", "plan", "reset_record", "undo_steps"]


class ResetTo(StrEnum):
    """The targets of a reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"
    SHIFT = "shift"


class Step(NamedTuple):
    """The group's offset in one queue before and after the reset, −1 if it has none, and the
    queue's range.
    """

    key: QueueKey
    before: int
    after: int
    start_offset: int
    end_offset: int


QueuePosition = tuple[QueueKey, int, int, int]  # a queue, the group's offset in it, its start and its end


def plan(
    positions: Iterable[QueuePosition], to: str, value: int, at_time: Callable[[QueueKey, int], int]
) -> list[Step]:
    """Return where each offset would go, limited to the range of its queue."""
    try:
        where = ResetTo(to)
    except ValueError:
        raise InvalidArgumentError(f"to={to!r}: choose one of {', '.join(ResetTo)}") from None
    steps = []
    for key, before, start_offset, end_offset in positions:
        match where:
            case ResetTo.EARLIEST:
                after = start_offset
            case ResetTo.LATEST:
                after = end_offset
            case ResetTo.TIMESTAMP:
                after = at_time(key, value)
            case ResetTo.OFFSET:
                after = value
            case ResetTo.SHIFT:
                after = (start_offset if before < 0 else before) + value
        steps.append(Step(key, before, min(max(after, start_offset), end_offset), start_offset, end_offset))
    return steps


def reset_record(
    group: str, reset_id: str, steps: Iterable[Step], former: Iterable[OffsetsReset], now_ms: int, undoes: str = ""
) -> Control:
    """Return the record that sets the offsets, with their former values."""
    steps = list(steps)
    number = max((reset.number for reset in former), default=0) + 1
    record = OffsetsReset(group=group, reset_id=reset_id, undoes=undoes, number=number, at=now_ms)
    for step in steps:
        where = {"group": group, "topic_id": step.key.topic_id, "queue_id": step.key.queue_id}
        record.before.append(GroupOffset(**where, offset=step.before))  # type: ignore[arg-type]
        record.after.append(GroupOffset(**where, offset=step.after))  # type: ignore[arg-type]
    return Control(offsets_reset=record)


def find_reset(resets: Iterable[OffsetsReset], reset_id: str, topic_id: int) -> OffsetsReset:
    """Return the reset ``reset_id``, or else the topic's latest that was not undone and is no undo
    itself.
    """
    resets = [reset for reset in resets if reset.after and reset.after[0].topic_id == topic_id]
    undone = {reset.undoes for reset in resets}
    for reset in reversed(resets):
        if reset_id == reset.reset_id or (not reset_id and not reset.undoes and reset.reset_id not in undone):
            if reset.reset_id in undone:
                undo_id = next(other.reset_id for other in reversed(resets) if other.undoes == reset.reset_id)
                raise InvalidArgumentError(
                    f"reset {reset_id!r} has already been undone: to redo it, undo reset {undo_id!r} (see `litemq "
                    "group describe`)"
                )
            return reset
    if reset_id:
        raise ResetNotFoundError(
            f"there is no reset {reset_id!r} of this topic: list the resets with `litemq group describe`"
        )
    raise ResetNotFoundError("there is no reset of this topic to undo: list the resets with `litemq group describe`")


def undo_steps(reset: OffsetsReset, current: Mapping[QueueKey, QueuePosition]) -> list[Step]:
    """Return the steps back to the former offsets, limited to the range of each queue."""
    steps = []
    for former_offset in reset.before:
        key = QueueKey(former_offset.topic_id, former_offset.queue_id)
        if key in current:
            _, offset, start_offset, end_offset = current[key]
            after = (
                former_offset.offset
                if former_offset.offset < 0
                else min(max(former_offset.offset, start_offset), end_offset)
            )
            steps.append(Step(key, offset, after, start_offset, end_offset))
    return steps
