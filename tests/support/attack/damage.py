"""Damage to the projections of a closed data directory: queues, key index, timers, state.

The log has everything: after a restart, nothing is missing or wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

__all__ = ["damage_projections"]

_PARTS: Final = ("consumequeue", "index", "timers", "state.db")


def damage_projections(directory: Path, chance: Random, count: int) -> list[str]:
    """Damage ``count`` files; return what was done to each."""
    done = []
    for part in chance.choices(_PARTS, k=count):
        files = sorted(
            file for file in directory.rglob("*") if file.is_file() and part in file.relative_to(directory).parts
        )
        files = [file for file in files if file.stat().st_size]
        if files:
            file = chance.choice(files)
            how = chance.choice((_flip, _cut, _zero, _remove, _overwrite, _extend))
            how(file, chance)
            done.append(f"{file.relative_to(directory)}: {how.__name__[1:]}")
    return done


def _change(file: Path, chance: Random, change: Callable[[bytes], bytes]) -> None:
    """Replace up to 512 bytes at a random position."""
    with file.open("r+b") as opened:
        at = chance.randrange(file.stat().st_size)
        opened.seek(at)
        old = opened.read(512)
        opened.seek(at)
        opened.write(change(old))


def _flip(file: Path, chance: Random) -> None:
    _change(file, chance, lambda old: bytes([old[0] ^ 1 << chance.randrange(8)]) + old[1:])


def _cut(file: Path, chance: Random) -> None:
    with file.open("r+b") as opened:
        opened.truncate(chance.randrange(file.stat().st_size))


def _zero(file: Path, chance: Random) -> None:
    _change(file, chance, lambda old: bytes(len(old)))


def _overwrite(file: Path, chance: Random) -> None:
    _change(file, chance, lambda old: chance.randbytes(len(old)))


def _remove(file: Path, chance: Random) -> None:
    file.unlink()


def _extend(file: Path, chance: Random) -> None:
    with file.open("ab") as opened:
        opened.write(chance.randbytes(chance.randrange(1, 200)))
