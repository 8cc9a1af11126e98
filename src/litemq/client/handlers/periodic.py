"""Periodic tasks: a task, and the job that sends its calls on a schedule."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from litemq.client.engine.job_options import CatchUpRule, OverlapRule
from litemq.client.handlers.tasks import call_value
from litemq.client.jobs.jobs import Jobs
from litemq.errors import InvalidArgumentError
from litemq.format.crc import crc32c

__all__ = ["PeriodicCall", "default_job_id"]

_MAX_JOB_ID: Final = 48
_PREFIX: Final = "tasks-"


class PeriodicCall(NamedTuple):
    """The arguments of ``@mq.periodic``."""

    function: Callable[..., Any]
    topic: str
    group_id: str
    job_id: str
    cron: str
    every: float | timedelta | None
    timezone: str
    overlap: OverlapRule
    catch_up: CatchUpRule
    catch_up_window: float | timedelta

    def check(self) -> None:
        """Check the arguments.

        Raises:
            InvalidArgumentError: The function has required parameters, or not exactly one schedule
                is given.
        """
        if bool(self.cron) == (self.every is not None):
            raise InvalidArgumentError(f"{self.function.__name__}(): pass either cron= or every= to @mq.periodic")
        try:
            inspect.signature(self.function).bind()
        except TypeError as error:
            raise InvalidArgumentError(
                f"{self.function.__name__}() must be callable without arguments: {error}"
            ) from None

    async def put(self, jobs: Jobs) -> None:
        """Create the job, or update it. A paused job stays paused."""
        await jobs.upsert(
            self.topic,
            call_value(self.function, (), {}),
            job_id=self.job_id,
            cron=self.cron,
            every=self.every,
            timezone=self.timezone,
            group_id=self.group_id,
            overlap=self.overlap,
            catch_up=self.catch_up,
            catch_up_window=self.catch_up_window,
        )


def default_job_id(topic: str) -> str:
    """Return the job id for a task's ``topic``: the function's name, shortened if too long."""
    name = topic.removeprefix(_PREFIX)
    return name if len(name) <= _MAX_JOB_ID else f"{crc32c(name.encode()):08x}-{name[-(_MAX_JOB_ID - 9) :]}"
