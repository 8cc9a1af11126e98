"""Scratch folder that is removed when its process ends, even if it is killed.

Benchmarks and tests write gigabytes. A killed process cannot clean up, so a small shell process
waits for its end and removes the folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["scratch_folder"]


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make ``tempfile`` and the child processes of the block use a new folder.

    It is removed when this process ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="litemq-scratch-"))
    _remove_at_exit(folder)
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable


def _remove_at_exit(folder: Path) -> None:
    # In its own session, so that signals to this process group do not reach it. ``read`` returns
    # when this process closes the pipe or ends.
    watcher = subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", 'read _; rm -rf -- "$1"', "sh", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    # Suites clean up at exit, too. Exit handlers run in reverse order, so this one runs last.
    @atexit.register
    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        watcher.communicate()
