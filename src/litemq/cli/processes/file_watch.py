"""Watch over the Python files of a directory, by polling."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["FileWatch"]

_IGNORED: Final = ("__pycache__", "node_modules", "site-packages")
_Version = tuple[int, int, int]


class FileWatch:
    """The Python files below ``directory``, without hidden directories and environments."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._versions = dict(_files(directory))

    def poll(self) -> list[str]:
        """Return the files that were written, added or removed since the last call, relative."""
        before, self._versions = self._versions, dict(_files(self._directory))
        changed = sorted(path for path in before | self._versions if before.get(path) != self._versions.get(path))
        return [os.path.relpath(path, self._directory) for path in changed]


def _files(directory: str) -> Iterator[tuple[str, _Version]]:
    """Yield each file with its version: its time alone may be the same after a second write."""
    for folder, folders, names in os.walk(directory):
        if folder != directory and "pyvenv.cfg" in names:
            folders.clear()
            continue
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _IGNORED]
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            with suppress(FileNotFoundError):  # removed in this moment
                found = path.stat()
                yield str(path), (found.st_mtime_ns, found.st_size, found.st_ino)
