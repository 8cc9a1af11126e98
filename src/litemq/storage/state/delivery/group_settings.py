"""Group settings, a part of the state: paused groups and the latest offset resets of each group.

The resets are kept so that an operator can undo them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from litemq.proto.control_pb2 import Control, Group, OffsetsReset, Row
from litemq.storage.state.part import Touch

__all__ = ["KEPT_RESETS", "GroupSettings"]

KEPT_RESETS: Final = 16  # per group


class GroupSettings:
    """The settings of all groups that are paused or were reset."""

    def __init__(self) -> None:
        self._paused: set[str] = set()
        self._resets: dict[str, list[OffsetsReset]] = {}  # by group, latest last

    # Queries --------------------------------------------------------------------------------------

    def is_paused(self, group: str) -> bool:
        """Return whether delivery to ``group`` is paused."""
        return group in self._paused

    def resets(self, group: str) -> tuple[OffsetsReset, ...]:
        """Return the offset resets of ``group``, latest last. The caller must not change them."""
        return tuple(self._resets.get(group, ()))

    def reset_id(self, group: str) -> str:
        """Return the id of the latest reset of ``group``, or an empty string."""
        resets = self._resets.get(group)
        return resets[-1].reset_id if resets else ""

    @property
    def names(self) -> set[str]:
        """The groups that are paused or were reset."""
        return self._paused | self._resets.keys()

    # Changes --------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "group_changed":
                return self._change(control.group_changed.group)
            case "offsets_reset":
                return self._reset(control.offsets_reset)
            case _:
                return []

    def _change(self, change: Group) -> list[Touch]:
        group = change.group
        touched: list[Touch] = [("group", group)]
        if change.gone:
            self._paused.discard(group)
            return touched + [("reset", group, reset.reset_id) for reset in self._resets.pop(group, ())]
        if change.paused:
            self._paused.add(group)
        else:
            self._paused.discard(group)
        return touched

    def _reset(self, new: OffsetsReset) -> list[Touch]:
        resets = self._resets.setdefault(new.group, [])
        if any(reset.reset_id == new.reset_id for reset in resets):
            return []
        kept = OffsetsReset()
        kept.CopyFrom(new)
        resets.append(kept)
        forgotten = resets[:-KEPT_RESETS]
        del resets[:-KEPT_RESETS]
        return [("reset", new.group, reset.reset_id) for reset in (*forgotten, kept)]

    # Rows -----------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
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
        """Yield every row, in a fixed order."""
        for group in sorted(self._paused):
            yield Row(group=Group(group=group, paused=True))
        for group in sorted(self._resets):
            for reset in self._resets[group]:
                yield Row(offsets_reset=reset)

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
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

    def copy(self) -> GroupSettings:
        """Return an independent copy."""
        other = GroupSettings()
        other._paused = set(self._paused)
        other._resets = {group: list(resets) for group, resets in self._resets.items()}
        return other
