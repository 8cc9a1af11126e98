"""What the processes of a cluster leave behind: logs of their runs, and replicas of one log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

__all__ = ["count_cut_off", "masters_of_epochs", "two_masters", "unequal_replicas"]

_MASTER: Final = re.compile(r"(\S+) is the master of group (\S+) in epoch (\d+)")
_STEP: Final = 1 << 20


def masters_of_epochs(logs: Sequence[Path]) -> dict[tuple[str, int], set[str]]:
    """Return the brokers that were the master, by group and epoch, according to their ``logs``."""
    masters: dict[tuple[str, int], set[str]] = defaultdict(set)
    for log in logs:
        for broker, group, epoch in _MASTER.findall(log.read_text(errors="replace")):
            masters[group, int(epoch)].add(broker)
    return dict(masters)


def two_masters(masters: dict[tuple[str, int], set[str]]) -> Iterator[str]:
    """I5: an epoch has one master."""
    for (group, epoch), brokers in sorted(masters.items()):
        if len(brokers) > 1:
            yield f"I5: group {group} had the masters {', '.join(sorted(brokers))} in epoch {epoch}"


def count_cut_off(folders: Sequence[Path]) -> int:
    """Return the number of tails that followers cut off their logs, and kept."""
    return sum(1 for folder in folders for _ in folder.rglob("cut-off-*"))


def unequal_replicas(folders: Sequence[Path]) -> Iterator[str]:
    """I2: all replicas have the same bytes at the same offset, up to the end of the shortest log.

    The logs are of stopped replicas. One that was copied may begin later than the others, and the
    last master may have records that it could not confirm any more.
    """
    logs = [_segments(folder) for folder in folders]
    end = min(map(_log_end, logs))
    for folder, log in zip(folders[1:], logs[1:], strict=True):
        for start in sorted(logs[0].keys() & log.keys()):
            at = _first_difference(logs[0][start], log[start], end - start)
            if at is not None:
                yield f"I2: the logs of {folders[0]} and {folder} differ at offset {start + at}"


def _segments(folder: Path) -> dict[int, Path]:
    """Return the segments of a log by the offset at which they start."""
    return {int(segment.name): segment for segment in (folder / "commitlog").iterdir() if segment.name.isdigit()}


def _log_end(segments: dict[int, Path]) -> int:
    """Return the offset behind the last byte that is not zero."""
    for start in sorted(segments, reverse=True):
        data = segments[start].read_bytes().rstrip(b"\0")
        if data:
            return start + len(data)
    return 0


def _first_difference(one: Path, other: Path, size: int) -> int | None:
    """Return the first position below ``size`` at which two files differ."""
    with one.open("rb") as left, other.open("rb") as right:
        for at in range(0, max(0, size), _STEP):
            a, b = (each.read(min(_STEP, size - at)).ljust(_STEP, b"\0") for each in (left, right))
            if a != b:
                return at + next(number for number in range(_STEP) if a[number] != b[number])
    return None
