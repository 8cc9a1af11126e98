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
    """I2: the same bytes are at the same offset of all replicas' logs.

    The logs are of stopped replicas. One that was copied may begin later than the others.
    """
    segments: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        for segment in (folder / "commitlog").iterdir():
            if segment.name.isdigit():
                segments[segment.name].append(segment)
    for name, copies in sorted(segments.items()):
        for other in copies[1:]:
            at = _first_difference(copies[0], other)
            if at is not None:
                yield f"I2: {copies[0]} and {other} differ at offset {int(name) + at}"


def _first_difference(one: Path, other: Path) -> int | None:
    """Return the first position at which two files differ; a shorter file ends with zeros."""
    with one.open("rb") as left, other.open("rb") as right:
        at = 0
        while True:
            a, b = left.read(_STEP), right.read(_STEP)
            if not a and not b:
                return None
            size = max(len(a), len(b))
            a, b = a.ljust(size, b"\0"), b.ljust(size, b"\0")
            if a != b:
                return at + next(number for number in range(size) if a[number] != b[number])
            at += size
