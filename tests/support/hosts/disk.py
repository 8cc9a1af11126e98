"""Disks of hosts: file systems of their own, whose power can be cut.

A power cut is the ioctl that the file system's own tests use: the mounted file system stops at
once, and writes neither its journal nor any dirty page. Unsynced data is gone after the next mount.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["Disk", "can_cut_power"]

_SHUTDOWN: Final = 0x8004587D  # of ext4 and xfs
_WITHOUT_JOURNAL: Final = 2
_BYTES: Final = 1 << 30  # sparse


class Disk:
    """A directory at ``path``: on a file system of its own if ``has_power`` is to be cut."""

    def __init__(self, path: Path, *, is_own: bool) -> None:
        self.path = path
        self._image = path.with_suffix(".img") if is_own else None
        path.mkdir()
        if self._image is not None:
            with self._image.open("wb") as image:
                image.truncate(_BYTES)
            subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
            self._mount()

    def cut_power(self) -> None:
        """Lose everything that is not synced.

        Freeze the processes with open files here first, and kill them next: a sync in flight may
        return success although its data is lost.
        """
        assert self._image is not None
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _WITHOUT_JOURNAL))
        finally:
            os.close(folder)

    def restore_power(self) -> None:
        """Mount it again. No process has open files here."""
        self._unmount()
        self._mount()

    def wipe(self) -> None:
        """Remove all files. No process has open files here."""
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def close(self) -> None:
        if self._image is not None:
            self._unmount()

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self._image), str(self.path)], check=True)

    def _unmount(self) -> None:
        subprocess.run(["umount", str(self.path)], check=True)


def can_cut_power(folder: Path) -> str:
    """Return why the power of disks in ``folder`` cannot be cut; empty if it can."""
    try:
        disk = Disk(folder / "probe", is_own=True)
        disk.cut_power()
        disk.restore_power()
        disk.close()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
