"""``litemq job``: jobs, which send messages on a schedule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litemq.cli.bodies import ContentType, Raw, body_properties
from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import moment
from litemq.cli.nouns import new_noun
from litemq.cli.options import Keys, Properties, Tags, Yes
from litemq.cli.partial import accept_partial
from litemq.cli.rendering.exit_codes import EXIT_FAILED
from litemq.cli.rendering.jobs import job_row, run_row, show_job, time_or_dash
from litemq.cli.rendering.output import Format, OutputFormat, write_rows, write_value
from litemq.client.engine.job_options import CatchUpRule, OverlapRule
from litemq.types import check_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from litemq import AsyncClient
    from litemq.client.engine.job import BackfillResult, ImportResult, Job, JobRun

__all__ = ["app"]

app = new_noun("job")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Job id.", show_default=False)]
Timezone = Annotated[
    str,
    typer.Option(
        "--timezone", metavar="ZONE", help="Time zone of the expression, such as Europe/Berlin; default: UTC."
    ),
]

_NOT_DONE = "Nothing was changed. Use --yes to apply.\n"
_COLUMNS = ("job", "topic", "schedule", "timezone", "state", "next", "last", "sent", "failed", "skipped", "missed")


@app.callback()
def job() -> None:
    """Manage jobs, which send messages on a schedule."""


@app.command("create")
def create(
    job_id: JobId,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to send to.", show_default=False)],
    body: Annotated[str, typer.Argument(metavar="BODY", help="Body of the messages, as text.")] = "",
    content_type: ContentType = None,
    raw: Raw = False,
    cron: Annotated[
        str,
        typer.Option(
            "--cron",
            metavar="EXPR",
            help='Cron expression of six fields, seconds first ("0 */5 * * * *"), or five; or @daily, @every 90s.',
        ),
    ] = "",
    timezone: Timezone = "",
    every: Annotated[
        float | None, typer.Option("--every", min=1, help="Interval in seconds, instead of --cron.", show_default=False)
    ] = None,
    group: Annotated[str, typer.Option("--group", help="Consumer group whose acknowledgement ends a run.")] = "",
    overlap: Annotated[
        OverlapRule, typer.Option("--overlap", help="Policy for a tick while the previous run is not finished.")
    ] = "allow",
    catch_up: Annotated[
        CatchUpRule,
        typer.Option(
            "--catch-up", help="Missed ticks to send once a broker is available: one (the latest), all, or skip."
        ),
    ] = "one",
    catch_up_window: Annotated[
        float, typer.Option("--catch-up-window", min=0, help="Maximum age in seconds of a missed tick to catch up.")
    ] = 86_400,
    jitter: Annotated[float, typer.Option("--jitter", min=0, help="Maximum delay in seconds, constant for a job.")] = 0,
    max_retries: Annotated[
        int | None, typer.Option("--max-retries", min=0, help="Maximum retries of a run.", show_default=False)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Maximum duration of a run in seconds.", show_default=False)
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="TIME", help="Time of the earliest tick, such as 2026-01-31T12:00:00Z."),
    ] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="Time of the latest tick.")] = None,
    keys: Keys = None,
    tags: Tags = None,
    properties: Properties = None,
    ordering_key: Annotated[
        str, typer.Option("--ordering-key", help="Ordering key: messages with the same key go to the same queue.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Update the job if it exists.")] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Create a job and show its next run."""
    content = body.encode("utf-8", "surrogateescape")
    options: dict[str, Any] = {
        "cron": cron,
        "timezone": timezone,
        "every": every,
        "group_id": group,
        "overlap": overlap,
        "catch_up": catch_up,
        "catch_up_window": catch_up_window,
        "jitter": jitter,
        "max_retries": max_retries,
        "timeout": timeout,
        "start_at": None if start is None else moment(start, "--start"),
        "end_at": None if end is None else moment(end, "--end"),
        "keys": keys or (),
        "tags": tags or (),
        "properties": body_properties(content, properties or [], content_type, raw=raw),
        "ordering_key": ordering_key,
    }
    check_name(job_id, "job")  # for an empty id the client would generate one

    async def use(mq: AsyncClient) -> Job:
        return await (mq.jobs.upsert if replace else mq.jobs.create)(topic, content, job_id=job_id, **options)

    show_job(with_client(url, config, use), output)


@app.command("list")
def list_(
    topic: Annotated[str, typer.Option("--topic", help="Only jobs that send to this topic.")] = "",
    group: Annotated[str, typer.Option("--group", help="Only jobs whose runs this group acknowledges.")] = "",
    prefix: Annotated[str, typer.Option("--prefix", help="Only jobs whose id starts with this prefix.")] = "",
    paused: Annotated[
        bool | None, typer.Option("--paused/--running", help="Only paused jobs, or only jobs that are not paused.")
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Maximum number to list.")] = 100,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List jobs, oldest first."""

    async def use(mq: AsyncClient) -> tuple[Sequence[Job], int]:
        found = mq.jobs.list(topic=topic, group_id=group, prefix=prefix, paused=paused, most=limit)
        return await accept_partial(found), await accept_partial(mq.jobs.count())

    found, total = with_client(url, config, use)
    write_rows([job_row(each) for each in found], _COLUMNS, output, none="There are no matching jobs.")
    if output is OutputFormat.TABLE and len(found) == limit < total:
        sys.stdout.write(f"Showing the first {len(found)}; {total} jobs exist. Use --limit to list more.\n")


@app.command("show")
def show(job_id: JobId, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Show a job in full. Exits with 3 if it does not exist."""

    async def use(mq: AsyncClient) -> Job:
        return await mq.jobs.get(job_id)

    show_job(with_client(url, config, use), output)


@app.command("pause")
def pause(job_id: JobId, url: Url = None, config: ClientFile = None) -> None:
    """Pause a job: its schedule sends no messages until it is resumed."""

    async def use(mq: AsyncClient) -> None:
        await mq.jobs.pause(job_id)

    with_client(url, config, use)
    sys.stdout.write(f"paused job {job_id}; resume it with: litemq job resume {job_id}\n")


@app.command("resume")
def resume(job_id: JobId, url: Url = None, config: ClientFile = None) -> None:
    """Resume a job from its next tick.

    Ticks that were due meanwhile are not sent; use backfill for them.
    """

    async def use(mq: AsyncClient) -> Job:
        await mq.jobs.resume(job_id)
        return await mq.jobs.get(job_id)

    sys.stdout.write(f"resumed job {job_id}; next run: {time_or_dash(with_client(url, config, use).next_run)}\n")


@app.command("trigger")
def trigger(job_id: JobId, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Send a job's message now, regardless of its schedule."""

    async def use(mq: AsyncClient) -> str:
        return await mq.jobs.trigger(job_id)

    message_id = with_client(url, config, use)
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"sent {message_id}\n")
    else:
        write_value({"job": job_id, "message_id": message_id}, output)


@app.command("backfill")
def backfill(
    job_id: JobId,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Start of the time range, inclusive.", show_default=False)
    ],
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="End of the time range, exclusive.", show_default=False)
    ],
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send a message for each past tick that has none.

    Without --yes, only counts them and exits with 1.
    """
    begin, end = moment(since, "--since"), moment(until, "--until")

    async def use(mq: AsyncClient) -> BackfillResult:
        return await mq.jobs.backfill(job_id, begin, end, dry_run=not yes)

    result = with_client(url, config, use)
    if output is OutputFormat.TABLE:
        sys.stdout.write(
            f"{result.sent} {'sent' if yes else 'would be sent'}, {result.there} already sent\n"
            f"{'' if yes else _NOT_DONE}"
        )
    else:
        write_value({"job": job_id, "sent": result.sent, "already_sent": result.there, "done": yes}, output)
    if not yes:
        raise typer.Exit(EXIT_FAILED)


@app.command("delete")
def delete(job_id: JobId, yes: Yes = False, url: Url = None, config: ClientFile = None) -> None:
    """Delete a job and keep its messages. Without --yes, only shows the job and exits with 1."""

    async def use(mq: AsyncClient) -> Job:
        found = await mq.jobs.get(job_id)
        if yes:
            await mq.jobs.delete(job_id)
        return found

    found = with_client(url, config, use)
    if yes:
        sys.stdout.write(f"deleted job {job_id}\n")
        return
    show_job(found, OutputFormat.TABLE)
    sys.stdout.write(_NOT_DONE)
    raise typer.Exit(EXIT_FAILED)


@app.command("history")
def history(
    job_id: JobId,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=100, help="Maximum number to list.")] = 20,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the latest messages of a job that are still in the log, and their states."""

    async def use(mq: AsyncClient) -> Sequence[JobRun]:
        return await mq.jobs.history(job_id, most=limit)

    rows = [run_row(run) for run in with_client(url, config, use)]
    write_rows(
        rows,
        ["tick", "sent_at", "state", "message_id", "queue", "offset"],
        output,
        none=f"Job {job_id} has sent no messages yet.",
    )


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON lines, or CSV if the name ends with .csv; - reads standard input.",
            show_default=False,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate the jobs.")] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Create or update jobs from a file.

    Invalid lines are reported and skipped; exits with 1 if there are any.

    A line has job_id, topic, body, and cron or every; optionally timezone, group_id, overlap,
    catch_up and the other options of the Python API.
    """
    from litemq.cli.job_file import JobFile

    async def use(mq: AsyncClient) -> ImportResult:
        with JobFile(file) as jobs:
            result = await mq.jobs.import_(jobs, dry_run=dry_run)
            return jobs.with_lines(result)

    result = with_client(url, config, use)
    for refused in result.refused:
        typer.echo(
            f"line {refused.number}{f' ({refused.job_id})' if refused.job_id else ''}: {refused.problem}", err=True
        )
    if output is OutputFormat.TABLE:
        would = "would be " if dry_run else ""
        parts = f"{result.created} {would}created, {result.changed} {would}changed, {result.unchanged} unchanged"
        sys.stdout.write(f"{parts}, {len(result.refused)} refused\n")
    else:
        summary = result._asdict() | {"refused": [refused._asdict() for refused in result.refused], "dry_run": dry_run}
        write_value(summary, output)
    if result.refused:
        raise typer.Exit(EXIT_FAILED)


@app.command("next")
def next_(
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help='Cron expression, such as "0 30 2 * * mon-fri".', show_default=False)
    ],
    timezone: Timezone = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of times to print.")] = 5,
    after: Annotated[
        str | None, typer.Option("--after", metavar="TIME", help="Time to start after; default: now.")
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Print the next times of a cron expression, in its time zone and in UTC. Needs no broker."""
    from litemq.cli.rendering.jobs import next_times

    rows = next_times(expression, timezone, limit, None if after is None else moment(after, "--after"))
    write_rows(rows, ["time", "utc"], output, none="The expression never matches.")
