"""Jobs and the results of job operations, as client programs see them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from litemq.client.engine.job_options import rule_name
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import JobFacts
from litemq.types import CatchUp, Overlap

__all__ = ["BackfillResult", "ImportResult", "Job", "JobRun", "RefusedJob"]


class Job:
    """A snapshot of a job: its definition and its counters at the time of the request."""

    __slots__ = ("_facts", "broker")

    def __init__(self, broker: str, facts: JobFacts) -> None:
        self.broker = broker
        self._facts = facts

    @property
    def definition(self) -> JobDefinition:
        """The definition that the broker stores."""
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
        """The time zone of the cron expression; empty for ``@every``."""
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
        """The rule for a tick during the previous run: allow, skip or queue-one."""
        return rule_name(Overlap(self.definition.overlap))

    @property
    def catch_up(self) -> str:
        """The rule for ticks missed while the broker was down: skip, one or all."""
        return rule_name(CatchUp(self.definition.catch_up))

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
        """The next tick; ``None`` if the job is paused or its schedule has ended."""
        return moment(self._facts.next_tick)

    @property
    def last_run(self) -> datetime | None:
        """The latest tick for which a message was sent."""
        return moment(self._facts.last_tick)

    @property
    def last_sent_at(self) -> datetime | None:
        """When the latest message was stored, of a tick, a trigger or a backfill."""
        return moment(self._facts.last_at)

    @property
    def sent(self) -> int:
        """The number of messages sent so far."""
        return self._facts.sent

    @property
    def failed(self) -> int:
        """The number of messages that became dead letters."""
        return self._facts.failed

    @property
    def skipped(self) -> int:
        """The number of ticks not sent: a run was active, or the job was paused or changed."""
        return self._facts.skipped

    @property
    def missed(self) -> int:
        """The number of ticks not sent because the broker was down, or the topic was deleted."""
        return self._facts.missed

    @property
    def is_running(self) -> bool:
        """Whether the latest message is not settled by the job's group."""
        return self._facts.running

    @property
    def queued(self) -> datetime | None:
        """The tick to be sent when the current run ends; ``None``: none."""
        return moment(self._facts.queued)

    def __repr__(self) -> str:
        return f"<Job {self.job_id} to {self.topic}: {self.schedule}{' paused' if self.is_paused else ''}>"


class JobRun(NamedTuple):
    """One message of a job. ``state``: sent, done, trying (after a failure) or failed."""

    message_id: str
    tick: datetime | None  # None: triggered by hand
    sent_at: datetime
    queue_id: int
    queue_offset: int
    state: str


class BackfillResult(NamedTuple):
    """The result of a backfill: ticks sent, and ticks that had a message already (``there``)."""

    sent: int
    there: int


class RefusedJob(NamedTuple):
    """A job that was not imported: its position in the input, from 1 on, and the reason."""

    number: int
    job_id: str
    problem: str


class ImportResult(NamedTuple):
    """The result of an import, or of its dry run."""

    created: int
    changed: int
    unchanged: int
    refused: tuple[RefusedJob, ...]


def moment(ms: int) -> datetime | None:
    """Convert milliseconds since 1970 to a ``datetime``; 0 means none."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
