"""What an engine does with jobs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from litemq.client.engine.job import Job, JobRun
from litemq.proto.jobs_pb2 import JobDefinition

__all__ = ["JobBackend", "JobPage", "PutHow", "PutOutcome"]


class PutHow(IntEnum):
    """What a job that is put may be to those that are there; the numbers are the wire's."""

    CREATE = 0
    CHANGE = 1
    EITHER = 2


class PutOutcome(NamedTuple):
    """What was done with a job: created, changed, unchanged, deleted; or the code of an error, and what it says."""

    done: str
    code: int = 0
    problem: str = ""


class JobPage(NamedTuple):
    """Some jobs of a broker."""

    jobs: tuple[Job, ...]
    next_after: int
    is_end: bool
    total: int  # of all that are there


class JobBackend(Protocol):
    """The jobs of a cluster, broker by broker."""

    async def brokers(self) -> list[str]:
        """Those that can be asked."""
        ...

    async def home(self, job: JobDefinition) -> str:
        """The broker that a new job lives on; its queue is put into the definition where the ordering key decides it."""
        ...

    async def put(self, broker: str, jobs: Sequence[JobDefinition], how: PutHow, *, dry_run: bool) -> list[PutOutcome]:
        """Create or change jobs of one broker."""
        ...

    async def get(self, broker: str, ids: Sequence[str]) -> list[Job]:
        """Those jobs that are there."""
        ...

    async def page(
        self, broker: str, *, after: int, most: int, topic: str = "", group: str = "", prefix: str = "", paused: bool | None = None
    ) -> JobPage:
        """Some jobs, in the order in which they were created."""
        ...

    async def delete(self, broker: str, ids: Sequence[str]) -> list[PutOutcome]:
        """Delete jobs."""
        ...

    async def pause(self, broker: str, ids: Sequence[str], *, paused: bool) -> list[PutOutcome]:
        """Pause jobs, or let them go on."""
        ...

    async def trigger(self, broker: str, job_id: str, trigger_id: str) -> str:
        """Send a job's message now; its id."""
        ...

    async def backfill(self, broker: str, job_id: str, since: int, until: int, *, dry_run: bool) -> tuple[int, int, int]:
        """How many were sent, how many had been, and from where to go on, 0: that was all."""
        ...

    async def history(self, broker: str, job_id: str, most: int) -> list[JobRun]:
        """The latest messages of a job."""
        ...
