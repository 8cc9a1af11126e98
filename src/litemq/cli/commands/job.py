"""``litemq job``: messages that are sent at the times of a schedule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import moment
from litemq.cli.nouns import new_noun
from litemq.cli.options import named_values
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

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.", show_default=False)]
Timezone = Annotated[str, typer.Option("--timezone", metavar="ZONE", help="Of the expression: Asia/Shanghai, Europe/Berlin; default: UTC.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it.")]

_NOT_DONE = "Nothing was changed. Say --yes to do it.\n"
_COLUMNS = ("job", "topic", "schedule", "timezone", "state", "next", "last", "sent", "failed", "skipped", "missed")


@app.callback()
def job() -> None:
    """Send messages at the times of a schedule: create such jobs, look at them, pause and trigger them."""


@app.command("create")
def create(
    job_id: JobId,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the messages go.", show_default=False)],
    body: Annotated[str, typer.Argument(metavar="BODY", help="What they say.")] = "",
    cron: Annotated[
        str, typer.Option("--cron", metavar="EXPR", help='Six fields, the second first: "0 */5 * * * *"; or five; or @daily, @every 90s.')
    ] = "",
    timezone: Timezone = "",
    every: Annotated[float | None, typer.Option("--every", min=1, help="Seconds, instead of an expression.", show_default=False)] = None,
    group: Annotated[str, typer.Option("--group", help="The group whose acknowledgement ends a run.")] = "",
    overlap: Annotated[OverlapRule, typer.Option("--overlap", help="A tick while the run before is not over.")] = "allow",
    catch_up: Annotated[CatchUpRule, typer.Option("--catch-up", help="Ticks while no broker was there: the latest, all, none.")] = "one",
    catch_up_window: Annotated[float, typer.Option("--catch-up-window", min=0, help="Seconds after which none is caught up.")] = 86_400,
    jitter: Annotated[float, typer.Option("--jitter", min=0, help="Seconds that the job comes later at most, always the same.")] = 0,
    max_retries: Annotated[int | None, typer.Option("--max-retries", min=0, help="Of a run.", show_default=False)] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="Seconds that a run may take.", show_default=False)] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="TIME", help="No tick before; 2026-01-31T12:00:00Z.")] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="No tick after.")] = None,
    keys: Annotated[list[str] | None, typer.Option("--key", help="To find messages by; may be repeated.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="To choose messages by; may be repeated.")] = None,
    properties: Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="May be repeated.")] = None,
    ordering_key: Annotated[str, typer.Option("--ordering-key", help="All messages with one go to one queue.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Change the job of that id, if there is one.")] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Create a job, and say when it runs next."""
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
        "properties": named_values(properties or []),
        "ordering_key": ordering_key,
    }
    check_name(job_id, "job")  # an empty one would be made by the client, and nobody would know it

    async def use(mq: AsyncClient) -> Job:
        make = mq.jobs.upsert if replace else mq.jobs.create
        return await make(topic, body.encode("utf-8", "surrogateescape"), job_id=job_id, **options)

    show_job(with_client(url, config, use), output)


@app.command("list")
def list_(
    topic: Annotated[str, typer.Option("--topic", help="Those that send to this topic.")] = "",
    group: Annotated[str, typer.Option("--group", help="Those whose runs this group ends.")] = "",
    prefix: Annotated[str, typer.Option("--prefix", help="Those whose ids begin so.")] = "",
    paused: Annotated[bool | None, typer.Option("--paused/--running", help="Only those that are paused, or that are not.")] = None,
    most: Annotated[int, typer.Option("-n", "--most", min=1, help="How many at most.")] = 100,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List jobs, the oldest first."""

    async def use(mq: AsyncClient) -> tuple[Sequence[Job], int]:
        return await mq.jobs.list(topic=topic, group_id=group, prefix=prefix, paused=paused, most=most), await mq.jobs.count()

    found, total = with_client(url, config, use)
    write_rows([job_row(each) for each in found], _COLUMNS, output, none="There are no such jobs.")
    if output is OutputFormat.TABLE and len(found) == most < total:
        sys.stdout.write(f"and perhaps more: there are {total} jobs. Say -n for more of them.\n")


@app.command("show")
def show(job_id: JobId, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Show a job whole. Exits with 3 where there is none."""

    async def use(mq: AsyncClient) -> Job:
        return await mq.jobs.get(job_id)

    show_job(with_client(url, config, use), output)


@app.command("pause")
def pause(job_id: JobId, url: Url = None, config: ClientFile = None) -> None:
    """Send nothing more by its schedule, until it is resumed."""

    async def use(mq: AsyncClient) -> None:
        await mq.jobs.pause(job_id)

    with_client(url, config, use)
    sys.stdout.write(f"{job_id} is paused; litemq job resume {job_id} lets it go on\n")


@app.command("resume")
def resume(job_id: JobId, url: Url = None, config: ClientFile = None) -> None:
    """Go on with the next tick; what was due meanwhile is not sent, backfill does that."""

    async def use(mq: AsyncClient) -> Job:
        await mq.jobs.resume(job_id)
        return await mq.jobs.get(job_id)

    sys.stdout.write(f"{job_id} goes on, next at {time_or_dash(with_client(url, config, use).next_run)}\n")


@app.command("trigger")
def trigger(job_id: JobId, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Send its message now, whatever its schedule says."""

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
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="From this time on.", show_default=False)],
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Before this time.", show_default=False)],
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send a message for each tick of a time that is over and has none. Without --yes it only counts them, and exits with 1."""
    begin, end = moment(since, "--since"), moment(until, "--until")

    async def use(mq: AsyncClient) -> BackfillResult:
        return await mq.jobs.backfill(job_id, begin, end, dry_run=not yes)

    result = with_client(url, config, use)
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"{result.sent} {'sent' if yes else 'would be sent'}, {result.there} were sent before\n{'' if yes else _NOT_DONE}")
    else:
        write_value({"job": job_id, "sent": result.sent, "there": result.there, "done": yes}, output)
    if not yes:
        raise typer.Exit(EXIT_FAILED)


@app.command("delete")
def delete(job_id: JobId, yes: Yes = False, url: Url = None, config: ClientFile = None) -> None:
    """Delete a job; its messages stay. Without --yes it only shows it, and exits with 1."""

    async def use(mq: AsyncClient) -> Job:
        found = await mq.jobs.get(job_id)
        if yes:
            await mq.jobs.delete(job_id)
        return found

    found = with_client(url, config, use)
    if yes:
        sys.stdout.write(f"deleted {job_id}\n")
        return
    show_job(found, OutputFormat.TABLE)
    sys.stdout.write(_NOT_DONE)
    raise typer.Exit(EXIT_FAILED)


@app.command("history")
def history(
    job_id: JobId,
    most: Annotated[int, typer.Option("-n", "--most", min=1, max=100, help="How many at most.")] = 20,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the latest messages of a job that the log still has, and what became of them."""

    async def use(mq: AsyncClient) -> Sequence[JobRun]:
        return await mq.jobs.history(job_id, most=most)

    rows = [run_row(run) for run in with_client(url, config, use)]
    write_rows(rows, ["tick", "sent_at", "state", "message_id", "queue", "offset"], output, none=f"{job_id} has sent nothing yet.")


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, or CSV where it ends with .csv; - for standard input.", show_default=False)
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check them.")] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Create or change many jobs. Lines that are wrong are told with their numbers, the others are done; exits with 1 if there were any.

    A line has job_id, topic, body, and cron or every; timezone, group_id, overlap, catch_up and the other options as in Python.
    """
    from litemq.cli.job_file import JobFile

    async def use(mq: AsyncClient) -> ImportResult:
        with JobFile(file) as jobs:
            result = await mq.jobs.import_(jobs, dry_run=dry_run)
            return jobs.with_lines(result)

    result = with_client(url, config, use)
    for refused in result.refused:
        typer.echo(f"line {refused.number}{f' ({refused.job_id})' if refused.job_id else ''}: {refused.problem}", err=True)
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
    expression: Annotated[str, typer.Argument(metavar="EXPR", help='A cron expression: "0 30 2 * * mon-fri".', show_default=False)],
    timezone: Timezone = "",
    most: Annotated[int, typer.Option("-n", "--most", min=1, max=1000, help="How many.")] = 5,
    after: Annotated[str | None, typer.Option("--after", metavar="TIME", help="Those behind this time; default: now.")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Print the next times of an expression, in its time zone and in UTC. No broker is asked."""
    from litemq.cli.rendering.jobs import next_times

    rows = next_times(expression, timezone, most, None if after is None else moment(after, "--after"))
    write_rows(rows, ["time", "utc"], output, none="It never runs.")
