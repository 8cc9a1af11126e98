"""Jobs: validation of a definition, due ticks, and the record of a tick. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from litemq.errors import InvalidArgumentError
from litemq.format.crc import crc32c
from litemq.format.limits import MAX_KEYS, RecordLimits
from litemq.format.record_encode import RecordTemplate
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.schedules.cron import NEVER, Schedule, cron_schedule
from litemq.schedules.intervals import EverySchedule, check_every, duration_ms
from litemq.types import (
    DEFAULT_PRIORITY,
    JOB_PROPERTY,
    LATEST_TIME_MS,
    RETRIES_PROPERTY,
    TICK_PROPERTY,
    TIMEOUT_PROPERTY,
    CatchUp,
    Overlap,
    check_name,
)

__all__ = [
    "MAX_JOB_ID",
    "DueTicks",
    "checked_definition",
    "due_at",
    "due_ticks",
    "job_schedule",
    "next_tick",
    "tick_id",
    "tick_record",
    "ticks_between",
]

MAX_JOB_ID: Final = 48  # the id of a tick's message has its time, too
_DAY_MS: Final = 86_400_000
_MAX_WINDOW_MS: Final = 366 * _DAY_MS
_MAX_RETRIES: Final = 1_000
_MAX_COUNTED: Final = 1_000  # missed ticks of one job; beyond, the number is a lower bound
_ON_TIME_MS: Final = 10_000  # ticks no later than this are sent even without catch-up
_ALLOW: Final = int(Overlap.ALLOW)  # a member of an enum costs much to look up
_OVERLAPS: Final = frozenset(map(int, Overlap))
_CATCH_UPS: Final = frozenset(map(int, CatchUp))
_MAX_BODY_BYTES: Final = 256 << 10  # all jobs are kept in memory
_LIMITS: Final = RecordLimits(512 << 10)


def checked_definition(definition: JobDefinition, now: int, before: JobDefinition | None = None) -> JobDefinition:
    """Return ``definition`` as it is stored, or raise if it is invalid.

    ``before`` is the definition that it changes.
    """
    job = JobDefinition()
    job.CopyFrom(definition)
    job_id = job.id
    check_name(job_id, "job")
    if len(job_id) > MAX_JOB_ID:
        raise InvalidArgumentError(f"the job id has {len(job_id)} characters: use at most {MAX_JOB_ID}")
    check_name(job.topic)
    if job.group:
        check_name(job.group, "group")
    _check_schedule(job, now, before)
    _check_rules(job)
    if len(job.body) > _MAX_BODY_BYTES:
        raise InvalidArgumentError(
            f"the body has {len(job.body)} bytes: use at most {_MAX_BODY_BYTES}, and send larger data from the job's "
            "handler"
        )
    if len(job.keys) >= MAX_KEYS:
        raise InvalidArgumentError(f"{len(job.keys)} keys: use at most {MAX_KEYS - 1}; the job id is one more key")
    if job.properties and any(each.name.startswith("litemq-") for each in job.properties):
        raise InvalidArgumentError("property names that begin with litemq- are reserved: choose other names")
    if job.tags or job.keys or job.properties or job.ordering_key:
        tick_record(job, 0, tick_id(job, LATEST_TIME_MS), now)  # raises if no message may have these fields
    return job


def _check_schedule(job: JobDefinition, now: int, before: JobDefinition | None) -> None:
    if job.expression.lstrip()[:6].lower() == "@every":
        if job.every_ms:
            raise InvalidArgumentError(f"job {job.id!r} has both a cron expression and an interval: choose one")
        job.every_ms, job.expression = duration_ms(job.expression), ""
    if bool(job.expression) == bool(job.every_ms):
        raise InvalidArgumentError(f"job {job.id!r} needs a schedule: set either an expression or an interval")
    for name, moment in (("start_at", job.start_at), ("end_at", job.end_at)):
        if not 0 <= moment <= LATEST_TIME_MS:
            raise InvalidArgumentError(f"{name}={moment}: choose a time before the year 10000")
    if job.end_at and job.end_at <= job.start_at:
        raise InvalidArgumentError(f"job {job.id!r} ends before it starts: choose an end_at after start_at")
    if job.every_ms:
        check_every(job.every_ms)
        same = before is not None and before.every_ms == job.every_ms and before.start_at == job.start_at
        job.anchor = before.anchor if before is not None and same else job.start_at or now // 1000 * 1000
        job.timezone = ""
    else:
        job.anchor = 0
        cron_schedule(job.expression, job.timezone)


def _check_rules(job: JobDefinition) -> None:
    overlap, catch_up = job.overlap, job.catch_up
    if overlap not in _OVERLAPS or catch_up not in _CATCH_UPS:
        raise InvalidArgumentError(
            f"overlap={overlap}, catch_up={catch_up}: this broker does not know the value. "
            "Choose another, or upgrade it"
        )
    if overlap != _ALLOW and not job.group:
        raise InvalidArgumentError(
            f"job {job.id!r} needs a group_id, because only a group knows when a run is over: set group_id, or allow "
            "overlap"
        )
    if not job.catch_up_window_ms:
        job.catch_up_window_ms = _DAY_MS
    for name, length, limit in (
        ("catch_up_window_ms", job.catch_up_window_ms, _MAX_WINDOW_MS),
        ("jitter_ms", job.jitter_ms, _DAY_MS),
        ("timeout_ms", job.timeout_ms, _DAY_MS),
    ):
        if not 0 <= length <= limit:
            raise InvalidArgumentError(f"{name}={length}: choose 0 … {limit}")
    if job.max_retries > _MAX_RETRIES:
        raise InvalidArgumentError(f"max_retries={job.max_retries}: choose 0 … {_MAX_RETRIES}")
    if job.HasField("priority") and job.priority > 255:
        raise InvalidArgumentError(f"priority={job.priority}: choose 0 … 255")


# Ticks --------------------------------------------------------------------------------------------


def job_schedule(job: JobDefinition) -> Schedule:
    """Return the schedule of a job."""
    return EverySchedule(job.every_ms, job.anchor) if job.every_ms else cron_schedule(job.expression, job.timezone)


def next_tick(job: JobDefinition, through: int) -> int:
    """Return the first tick (ms) after ``through``; ``NEVER`` if there is none."""
    tick = job_schedule(job).next(max(through, job.start_at - 1))
    return NEVER if job.end_at and tick > job.end_at else tick


def due_at(job: JobDefinition, tick: int) -> int:
    """Return when a tick is sent: the tick plus the job's own jitter."""
    return tick + crc32c(job.id.encode()) % (job.jitter_ms + 1) if job.jitter_ms and tick < NEVER else tick


def ticks_between(job: JobDefinition, after: int, until: int, limit: int) -> Iterator[int]:
    """Yield up to ``limit`` ticks after ``after``, and not later than ``until``."""
    for _ in range(limit):
        after = next_tick(job, after)
        if after > until:
            return
        yield after


class DueTicks(NamedTuple):
    """The ticks of a job that are due, in ms."""

    send: list[int]
    through: int  # once ``send`` is sent, all ticks up to this one are decided: sent, skipped or missed
    missed: int  # how many are missed, at least
    upcoming: int = 0  # the first tick that is not due yet, 0 if unknown


def due_ticks(job: JobDefinition, through: int, now: int, limit: int) -> DueTicks:
    """Return the due ticks of a job that is decided up to ``through``, by its ``catch_up`` rule.

    Return at most ``limit`` ticks to send: the others are due again.
    """
    until = now - due_at(job, 0)  # less the jitter of its ticks
    last = next_tick(job, through)
    if last > until:
        return DueTicks([], through, 0, last)
    upcoming = next_tick(job, last)
    if upcoming > until and until - last <= _ON_TIME_MS:
        return DueTicks([last], last, 0, upcoming)  # as nearly always
    oldest = until - job.catch_up_window_ms
    send: list[int] = []
    if job.catch_up == CatchUp.ALL:
        send = list(ticks_between(job, max(through, oldest - 1), until, limit))  # the others come next
    last = send[-1] if send else _last_tick(job, through, until)
    if job.catch_up != CatchUp.ALL:
        is_sent = until - last <= _ON_TIME_MS or (job.catch_up == CatchUp.ONE and last >= oldest)
        send = [last] if is_sent else []
    before = (send[0] if send else last + 1) - 1
    return DueTicks(send, last, _count(job, through, before))


def _last_tick(job: JobDefinition, through: int, until: int) -> int:
    """Return the latest tick after ``through``, and not later than ``until``; there must be one."""
    span = 60_000
    while until - span > through and next_tick(job, until - span) > until:
        span *= 2
    last = tick = next_tick(job, max(through, until - span))
    while tick <= until:
        last, tick = tick, next_tick(job, tick)
    return last


def _count(job: JobDefinition, after: int, until: int) -> int:
    if job.every_ms and not job.start_at:
        first = job_schedule(job).next(after)
        return 0 if first > until else (until - first) // job.every_ms + 1
    return sum(1 for _ in ticks_between(job, after, until, _MAX_COUNTED))


# Records ------------------------------------------------------------------------------------------


def tick_id(job: JobDefinition, tick: int) -> str:
    """Return the id of a tick's message."""
    return f"{job.id}@{tick}"


def tick_record(job: JobDefinition, tick: int, message_id: str, now: int, shown_tick: int = 0) -> bytes:
    """Return the record of a tick.

    ``tick`` is 0 for messages that the schedule does not send itself.
    """
    shared = _template(
        job.topic,
        tuple(job.tags) if job.tags else (),
        tuple([(each.name, each.value) for each in job.properties]) if job.properties else (),
        job.priority if job.HasField("priority") else DEFAULT_PRIORITY,
        tick or shown_tick,
        job.timeout_ms,
        job.max_retries if job.HasField("max_retries") else -1,
    )
    job_id = job.id
    return shared.with_properties({JOB_PROPERTY: job_id}).encode(
        job.body,
        message_id=message_id,
        keys=(*job.keys, job_id) if job.keys else (job_id,),
        born_timestamp=now,
        delay_time=tick,
        sharding_key=job.ordering_key,
    )


@lru_cache(maxsize=1_000)
def _template(
    topic: str,
    tags: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    priority: int,
    tick: int,
    timeout_ms: int,
    max_retries: int,
) -> RecordTemplate:
    """Return the template that messages of many jobs share, if they are due together."""
    named = dict(properties)
    if len(named) != len(properties):
        raise InvalidArgumentError("a property is set twice: set it once")
    if tick:
        named[TICK_PROPERTY] = datetime.fromtimestamp(tick / 1000, UTC).isoformat(timespec="milliseconds")
    if timeout_ms:
        named[TIMEOUT_PROPERTY] = str(timeout_ms)
    if max_retries >= 0:
        named[RETRIES_PROPERTY] = str(max_retries)
    return RecordTemplate(topic, tags=tags, properties=named, priority=priority, limits=_LIMITS)
