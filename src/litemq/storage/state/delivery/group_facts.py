"""What was decided about groups: which are paused, and by what their offsets were set, so that it can be undone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from litemq.proto.control_pb2 import Control, Group, OffsetsReset, Row
from litemq.storage.state.part import Touch

__all__ = ["KEPT_RESETS", "GroupFacts"]

KEPT_RESETS: Final = 16  # of a group


class GroupFacts:
    """All groups of which something was decided. Changed by records alone."""

    def __init__(self) -> None:
        self._paused: set[str] = set()
        self._resets: dict[str, list[OffsetsReset]] = {}  # of a group, the latest last

    # Asking -------------------------------------------------------------------------------------------------------------------

    def is_paused(self, group: str) -> bool:
        """Whether a group is given nothing for now."""
        return group in self._paused

    def resets(self, group: str) -> tuple[OffsetsReset, ...]:
        """The last times that a group's offsets were set, the latest last. Only to be read."""
        return tuple(self._resets.get(group, ()))

    def reset_id(self, group: str) -> str:
        """The latest of them; empty, if there is none."""
        resets = self._resets.get(group)
        return resets[-1].reset_id if resets else ""

    @property
    def names(self) -> set[str]:
        """The groups of which something is known here."""
        return self._paused | self._resets.keys()

    # Changing -----------------------------------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "group_changed":
                return self._change(control.group_changed.group)
            case "offsets_reset":
                return self._reset(control.offsets_reset)
            case _:
                return []

    def _change(self, told: Group) -> list[Touch]:
        touched: list[Touch] = [("group", told.group)]
        if told.gone:
            self._paused.discard(told.group)
            return touched + [("reset", told.group, reset.reset_id) for reset in self._resets.pop(told.group, ())]
        if told.paused:
            self._paused.add(told.group)
        else:
            self._paused.discard(told.group)
        return touched

    def _reset(self, told: OffsetsReset) -> list[Touch]:
        resets = self._resets.setdefault(told.group, [])
        if any(reset.reset_id == told.reset_id for reset in resets):
            return []
        kept = OffsetsReset()
        kept.CopyFrom(told)
        resets.append(kept)
        forgotten = resets[:-KEPT_RESETS]
        del resets[:-KEPT_RESETS]
        return [("reset", told.group, reset.reset_id) for reset in (*forgotten, kept)]

    # Rows ---------------------------------------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("group", str(group)):
                paused = group in self._paused
                return Row(group=Group(group=group, paused=paused, gone=not paused))
            case ("reset", str(group), str(reset_id)):
                for reset in self._resets.get(group, ()):
                    if reset.reset_id == reset_id:
                        return Row(offsets_reset=reset)
                return Row(offsets_reset=OffsetsReset(group=group, reset_id=reset_id))
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for group in sorted(self._paused):
            yield Row(group=Group(group=group, paused=True))
        for group in sorted(self._resets):
            for reset in self._resets[group]:
                yield Row(offsets_reset=reset)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot, in whatever order they come."""
        match row.WhichOneof("row"):
            case "group":
                if row.group.paused:
                    self._paused.add(row.group.group)
                return True
            case "offsets_reset":
                kept = OffsetsReset()
                kept.CopyFrom(row.offsets_reset)
                resets = self._resets.setdefault(kept.group, [])
                resets.append(kept)
                resets.sort(key=lambda reset: reset.number)
                return True
            case _:
                return False

    def copy(self) -> GroupFacts:
        """As it is now."""
        other = GroupFacts()
        other._paused = set(self._paused)
        other._resets = {group: list(resets) for group, resets in self._resets.items()}
        return other
