"""Output of jobs and their runs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from litemq.cli.rendering.messages import body_as_value
from litemq.cli.rendering.output import OutputFormat, duration, plain, write_value

if TYPE_CHECKING:
    from litemq.client.engine.job import Job, JobRun

__all__ = ["job_row", "next_times", "run_row", "show_job", "time_or_dash"]


def time_or_dash(moment: datetime | None) -> str:
    """Format a time, or ``-`` for none."""
    return "-" if moment is None else moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def job_row(job: Job) -> dict[str, object]:
    """Return ``job`` as a row of a list."""
    return {
        "job": job.job_id,
        "topic": job.topic,
        "schedule": job.schedule,
        "timezone": job.timezone or "-",
        "state": "paused" if job.is_paused else "running" if job.is_running else "waiting" if job.next_run else "over",
        "next": time_or_dash(job.next_run),
        "last": time_or_dash(job.last_run),
        "sent": job.sent,
        "failed": job.failed,
        "skipped": job.skipped,
        "missed": job.missed,
    }


def show_job(job: Job, output: OutputFormat) -> None:
    """Print all fields of ``job``."""
    definition = job.definition
    whole = job_row(job) | {
        "broker": job.broker,
        "group": job.group_id,
        "overlap": job.overlap,
        "catch_up": job.catch_up,
        "catch_up_window": duration(job.catch_up_window.total_seconds() * 1000),
        "jitter": duration(job.jitter.total_seconds() * 1000) if job.jitter else "",
        "max_retries": definition.max_retries if definition.HasField("max_retries") else "",
        "timeout": duration(definition.timeout_ms) if definition.timeout_ms else "",
        "queued": time_or_dash(job.queued) if job.queued else "",
        "keys": ",".join(job.keys),
        "tags": ",".join(job.tags),
        "ordering_key": definition.ordering_key,
        "properties": dict(job.properties),
    }
    if output is not OutputFormat.TABLE:
        write_value(whole | body_as_value(job.body), output)
        return
    whole["body"] = plain(job.body, 1000)
    for word, value in whole.items():
        if value not in ("", {}):
            shown = value if word == "body" else plain(str(value), 1000)
            sys.stdout.write(f"{word:<16} {shown}\n")


def run_row(run: JobRun) -> dict[str, object]:
    """Return ``run`` as a row of the job's history."""
    return {
        "tick": "triggered" if run.tick is None else time_or_dash(run.tick),
        "sent_at": run.sent_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "state": run.state,
        "message_id": run.message_id,
        "queue": run.queue_id,
        "offset": run.queue_offset,
    }


def next_times(expression: str, timezone: str, limit: int, after: datetime | None) -> list[dict[str, object]]:
    """Return the next ``limit`` times of a cron expression, after ``after`` or now."""
    from litemq.schedules.cron import NEVER, cron_schedule
    from litemq.schedules.intervals import EverySchedule, duration_ms
    from litemq.schedules.zones import local_time

    begin = int((after or datetime.now(UTC)).timestamp() * 1000)
    every = expression.strip().lower().startswith("@every")
    schedule = (
        EverySchedule(duration_ms(expression), begin // 1000 * 1000) if every else cron_schedule(expression, timezone)
    )
    rows: list[dict[str, object]] = []
    while len(rows) < limit and (begin := schedule.next(begin)) < NEVER:
        rows.append(
            {
                "time": local_time(begin, timezone).isoformat(timespec="seconds"),
                "utc": time_or_dash(local_time(begin, "")),
            }
        )
    return rows
