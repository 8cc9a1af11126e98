"""Run lock: allows one archive per checkpoint, since a second one would reuse its batch numbers."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from litemq.errors import InvalidArgumentError
from litemq.spark.pipelines.config import ArchiveConfig

__all__ = ["hold_run_lock"]


@contextmanager
def hold_run_lock(config: ArchiveConfig) -> Iterator[None]:
    """Hold the lock of the checkpoint. Raise if another archive on this machine holds it.

    A remote checkpoint has no lock.
    """
    status = config.status_file
    if status is None:
        yield
        return
    status.parent.mkdir(parents=True, exist_ok=True)
    with status.with_name("litemq-running.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgumentError(
                f"an archive with the checkpoint {config.checkpoint_location} is already running "
                "(see `litemq pipeline status`): stop it, or choose another table"
            ) from None
        yield  # closing the file, or the end of the process, releases the lock
