"""One archive to a checkpoint: a second one would write batches of the same numbers beside the first."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from litemq.errors import InvalidArgumentError
from litemq.spark.pipelines.config import ArchiveConfig

__all__ = ["only_one"]


@contextmanager
def only_one(config: ArchiveConfig) -> Iterator[None]:
    """Raises where another archive with the same checkpoint runs on this machine. A checkpoint that is elsewhere is not looked at."""
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
                f"an archive with the checkpoint {config.checkpoint_location} runs already: `litemq pipeline status` shows it. Stop it, or "
                f"choose another table"
            ) from None
        yield  # the lock goes with the file, and with the process, however that ends
