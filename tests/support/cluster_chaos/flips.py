"""One flipped bit in the log of a stopped replica."""

from __future__ import annotations

from pathlib import Path
from random import Random

__all__ = ["flip_bit"]


def flip_bit(commitlog: Path, below: int, chance: Random) -> str:
    """Flip a bit at an offset ``below`` the given one; return where."""
    starts = sorted(int(segment.name) for segment in commitlog.iterdir() if segment.name.isdigit())
    if not starts or below <= starts[0]:
        return f"nothing: {commitlog} has no such offset"
    offset = chance.randrange(starts[0], below)
    start = max(start for start in starts if start <= offset)
    with (commitlog / f"{start:020d}").open("r+b") as segment:
        segment.seek(offset - start)
        (byte,) = segment.read(1)
        segment.seek(offset - start)
        segment.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return f"{commitlog.parent.parent.name} at {offset}"
