"""One flipped bit in the log of a replica, and whether it is repaired."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

__all__ = ["Flip", "flip_bit"]


@dataclass(frozen=True)
class Flip:
    """A flipped bit at ``offset`` of the log of ``broker``."""

    broker: str
    commitlog: Path
    offset: int
    before: int  # the byte

    def is_repaired(self) -> bool:
        """Whether the byte is right again, or gone with a wiped disk."""
        segment = _segment_of(self.commitlog, self.offset)
        if segment is None:
            return True
        with segment.open("rb") as opened:
            opened.seek(self.offset - int(segment.name))
            return opened.read(1) in (b"", bytes([self.before]))

    def __str__(self) -> str:
        return f"{self.broker} at {self.offset}"


def flip_bit(broker: str, commitlog: Path, below: int, chance: Random) -> Flip | None:
    """Flip a bit at an offset ``below`` the given one; return ``None`` if there is none."""
    starts = _starts(commitlog)
    if not starts or below <= starts[0]:
        return None
    offset = chance.randrange(starts[0], below)
    segment = _segment_of(commitlog, offset)
    assert segment is not None
    with segment.open("r+b") as opened:
        opened.seek(offset - int(segment.name))
        (byte,) = opened.read(1)
        opened.seek(offset - int(segment.name))
        opened.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return Flip(broker, commitlog, offset, byte)


def _starts(commitlog: Path) -> list[int]:
    if not commitlog.is_dir():
        return []
    return sorted(int(segment.name) for segment in commitlog.iterdir() if segment.name.isdigit())


def _segment_of(commitlog: Path, offset: int) -> Path | None:
    """Return the segment of ``offset``, if the log begins before it."""
    start = max((start for start in _starts(commitlog) if start <= offset), default=None)
    return None if start is None else commitlog / f"{start:020d}"
