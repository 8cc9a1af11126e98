"""The job part of the engine interface."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from litemq.client.engine.job import Job, JobRun
from litemq.proto.jobs_pb2 import JobDefinition

__all__ = ["JobEngine", "JobPage", "PutHow", "PutOutcome"]


class PutHow(IntEnum):
    """Whether a put may create or change a job; the numbers are those of the wire protocol."""

    CREATE = 0
    CHANGE = 1
    EITHER = 2


class PutOutcome(NamedTuple):
    """The outcome for one job: ``done`` is created, changed, unchanged or deleted.

    If it failed, ``code`` and ``problem`` say why.
    """

    done: str
    code: int = 0
    problem: str = ""


class JobPage(NamedTuple):
    """One page of a broker's jobs."""

    jobs: tuple[Job, ...]
    next_after: int
    is_end: bool
    total: int  # jobs that match, on all pages


class JobEngine(Protocol):
    """The jobs of a cluster, broker by broker."""

    async def brokers(self) -> list[str]:
        """Return the brokers that are alive."""
        ...

    async def home_broker(self, job: JobDefinition) -> str:
        """Return the broker for a new ``job``.

        If it has an ordering key, set its ``queue_id``, too.
        """
        ...

    async def put(self, broker: str, jobs: Sequence[JobDefinition], how: PutHow, *, dry_run: bool) -> list[PutOutcome]:
        """Create or change jobs of ``broker``."""
        ...

    async def get(self, broker: str, ids: Sequence[str]) -> list[Job]:
        """Return the jobs of ``broker`` with these ``ids``; missing jobs are left out."""
        ...

    async def page(
        self,
        broker: str,
        *,
        after: int,
        limit: int,
        topic: str = "",
        group: str = "",
        prefix: str = "",
        paused: bool | None = None,
    ) -> JobPage:
        """Return up to ``limit`` jobs behind ``after``, in the order of their creation."""
        ...

    async def delete(self, broker: str, ids: Sequence[str]) -> list[PutOutcome]: ...

    async def pause(self, broker: str, ids: Sequence[str], *, paused: bool) -> list[PutOutcome]:
        """Pause or resume jobs."""
        ...

    async def trigger(self, broker: str, job_id: str, trigger_id: str) -> str:
        """Send a job's message now, and return its id. A repeated ``trigger_id`` sends nothing."""
        ...

    async def backfill(
        self, broker: str, job_id: str, since: int, until: int, *, dry_run: bool
    ) -> tuple[int, int, int]:
        """Send the ticks from ``since`` to ``until`` (ms).

        Returns the number sent, the number sent before, and the next ``since`` (0: complete).
        """
        ...

    async def history(self, broker: str, job_id: str, limit: int) -> list[JobRun]:
        """Return the latest ``limit`` messages of a job."""
        ...
