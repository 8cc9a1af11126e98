"""A job, and what became of its messages, as a program sees them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from litemq.client.engine.job_options import word_of
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import JobFacts
from litemq.types import CatchUp, Overlap

__all__ = ["BackfillResult", "ImportResult", "Job", "JobRun", "RefusedJob"]


class Job:
    """A job as it was when it was asked for."""

    __slots__ = ("_facts", "broker")

    def __init__(self, broker: str, facts: JobFacts) -> None:
        self.broker = broker
        self._facts = facts

    @property
    def definition(self) -> JobDefinition:
        """As its broker keeps it."""
        return self._facts.definition

    @property
    def job_id(self) -> str:
        return self.definition.id

    @property
    def topic(self) -> str:
        return self.definition.topic

    @property
    def schedule(self) -> str:
        """The cron expression, or ``@every 90s``."""
        return self.definition.expression or f"@every {self.definition.every_ms / 1000:g}s"

    @property
    def timezone(self) -> str:
        """Of the cron expression; empty where it has none."""
        return (self.definition.timezone or "UTC") if self.definition.expression else ""

    @property
    def body(self) -> bytes:
        return self.definition.body

    @property
    def properties(self) -> Mapping[str, str]:
        return {each.name: each.value for each in self.definition.properties}

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.definition.keys)

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.definition.tags)

    @property
    def group_id(self) -> str:
        """The group whose acknowledgement ends a run."""
        return self.definition.group

    @property
    def overlap(self) -> str:
        """What becomes of a tick while the run before it is not over: allow, skip, queue-one."""
        return word_of(Overlap(self.definition.overlap))

    @property
    def catch_up(self) -> str:
        """What becomes of ticks while no broker was there: skip, one, all."""
        return word_of(CatchUp(self.definition.catch_up))

    @property
    def catch_up_window(self) -> timedelta:
        return timedelta(milliseconds=self.definition.catch_up_window_ms)

    @property
    def jitter(self) -> timedelta:
        return timedelta(milliseconds=self.definition.jitter_ms)

    @property
    def is_paused(self) -> bool:
        return self.definition.paused

    @property
    def next_run(self) -> datetime | None:
        """The next time of its schedule; ``None`` where there is none, or it is paused."""
        return moment(self._facts.next_tick)

    @property
    def last_run(self) -> datetime | None:
        """The time of its schedule for which a message was sent last."""
        return moment(self._facts.last_tick)

    @property
    def last_sent_at(self) -> datetime | None:
        """When its latest message was stored, whatever it was sent for."""
        return moment(self._facts.last_at)

    @property
    def sent(self) -> int:
        """Messages so far."""
        return self._facts.sent

    @property
    def failed(self) -> int:
        """Messages that died."""
        return self._facts.failed

    @property
    def skipped(self) -> int:
        """Ticks that were not sent, because a run was not over, or it was paused or changed."""
        return self._facts.skipped

    @property
    def missed(self) -> int:
        """Ticks that were not sent, because nobody was there to do it in time, or its topic was gone."""
        return self._facts.missed

    @property
    def is_running(self) -> bool:
        """Whether its group has not settled the latest message."""
        return self._facts.running

    @property
    def queued(self) -> datetime | None:
        """A tick that is sent when the run is over."""
        return moment(self._facts.queued)

    def __repr__(self) -> str:
        return f"<Job {self.job_id} to {self.topic}: {self.schedule}{' paused' if self.is_paused else ''}>"


class JobRun(NamedTuple):
    """One message of a job. ``state``: sent, done, trying (again, after a failure), failed."""

    message_id: str
    tick: datetime | None  # None: it was triggered
    sent_at: datetime
    queue_id: int
    queue_offset: int
    state: str


class BackfillResult(NamedTuple):
    """What a backfill sent, or would have; and how many ticks had a message already."""

    sent: int
    there: int


class RefusedJob(NamedTuple):
    """A job that was not imported: which one of those that were given, from 1 on, and why."""

    number: int
    job_id: str
    problem: str


class ImportResult(NamedTuple):
    """What an import did, or would have done."""

    created: int
    changed: int
    unchanged: int
    refused: tuple[RefusedJob, ...]


def moment(ms: int) -> datetime | None:
    """A time as a program wants it; 0 is none."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
