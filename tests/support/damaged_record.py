"""A record of a running store that is damaged for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["damaged"]


@contextmanager
def damaged(directory: Path, text: bytes) -> Iterator[None]:
    """Change the last byte of the last ``text`` in the first segment of the log, and repair it."""
    segment = min((directory / "commitlog").iterdir())
    at = segment.read_bytes().rindex(text) + len(text) - 1
    for byte in (b"X", text[-1:]):
        with segment.open("r+b") as file:
            file.seek(at)
            file.write(byte)
        if byte == b"X":
            yield
