"""The entry points of installed packages, such as engines and plug-ins."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points

__all__ = ["installed"]


@cache
def installed(group: str) -> EntryPoints:
    """Return the entry points of ``group``.

    It reads files of all installed packages, which takes 10 ms or more: once per process.
    """
    return entry_points(group=group)
