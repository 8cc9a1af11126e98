"""``litemq dlq``: list dead letters, group them by error, redrive and purge them."""

from __future__ import annotations

import datetime as dt
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litemq.cli.completion import complete_group, complete_name
from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import moment
from litemq.cli.nouns import new_noun
from litemq.cli.options import Yes
from litemq.cli.partial import note_missing
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND
from litemq.cli.rendering.messages import as_value, format_time
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_rows, write_value
from litemq.cli.rendering.redrives import follow, show_progress

if TYPE_CHECKING:
    from litemq import AsyncClient
    from litemq.client.dead_letters.dead_letter import DeadLetter
    from litemq.client.dead_letters.error_groups import ErrorGroup

__all__ = ["app"]

app = new_noun("dlq")


class Reason(StrEnum):
    """Values of ``--reason``."""

    MAX_RETRY = "max-retry"
    TTL_EXPIRED = "ttl-expired"
    QUEUE_FULL = "queue-full"
    CONSUME_ERROR = "consume-error"
    FILTERED = "filtered"
    UNDECIDED = "undecided"


Name = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC|GROUP",
        help="Topic, or consumer group to select its dead letters in all topics.",
        show_default=False,
        autocompletion=complete_name,
    ),
]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Id of the original message; repeatable.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Dead-lettered at or after this time, such as 2026-01-31T12:00:00Z.",
        show_default=False,
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Dead-lettered before this time.", show_default=False)
]
Reasons = Annotated[list[Reason] | None, typer.Option("--reason", help="Reason for dead-lettering; repeatable.")]
Group = Annotated[
    str,
    typer.Option("--group", help="Consumer group that failed to consume the message.", autocompletion=complete_group),
]
Fingerprint = Annotated[str, typer.Option("--fingerprint", help="Fingerprint of the error, from `litemq dlq groups`.")]
Undecodable = Annotated[
    bool | None,
    typer.Option(
        "--undecodable/--decodable", help="Only dead letters whose body could not be decoded, or only the others."
    ),
]


@app.callback()
def dlq() -> None:
    """Inspect, redrive and purge dead letters."""


def _selection(
    ids: list[str] | None,
    since: str | None,
    until: str | None,
    reasons: list[Reason] | None,
    group: str,
    fingerprint: str,
    undecodable: bool | None,
) -> dict[str, Any]:
    return {
        "ids": ids or (),
        "since": None if since is None else moment(since, "--since"),
        "until": None if until is None else moment(until, "--until"),
        "reasons": [reason.value for reason in reasons or ()],
        "group_id": group,
        "fingerprint": fingerprint,
        "undecodable": undecodable,
    }


@app.command("list")
def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC|GROUP",
            help="Topic or consumer group; omit it to count dead letters per topic.",
            show_default=False,
            autocompletion=complete_name,
        ),
    ] = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    reasons: Reasons = None,
    group: Group = "",
    fingerprint: Fingerprint = "",
    undecodable: Undecodable = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Maximum number to list.")] = 100,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List dead letters, oldest first, or the topics that have any."""
    if name is None:
        _list_topics(url, config, output)
        return
    selection = _selection(ids, since, until, reasons, group, fingerprint, undecodable)

    async def use(mq: AsyncClient) -> list[DeadLetter]:
        return await mq.dead_letters(name).select(**selection, most=limit)

    rows = [_row(letter) for letter in with_client(url, config, use)]
    columns = ["died_at", "topic", "message_id", "group", "reason", "tries", "fingerprint", "error"]
    write_rows(rows, columns, output, none=f"{name} has no matching dead letters.")


def _list_topics(url: str | None, config: Any, output: OutputFormat) -> None:
    async def use(mq: AsyncClient) -> dict[str, int]:
        return await mq.admin.dead_letter_topics()

    rows = [{"topic": topic, "dead_letters": letters} for topic, letters in with_client(url, config, use).items()]
    write_rows(rows, ["topic", "dead_letters"], output, none="There are no dead letters.")


@app.command("show")
def show(
    name: Name,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the original message.", show_default=False)],
    group: Group = "",
    raw: Annotated[bool, typer.Option("--raw", help="Write only the original body, unmodified.")] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show one dead letter in full. Exits with 3 if it does not exist."""

    async def use(mq: AsyncClient) -> DeadLetter | None:
        return await mq.dead_letters(name).get(message_id, group_id=group)

    letter = with_client(url, config, use)
    if letter is None:
        typer.echo(f"{name} has no dead letter of message {message_id}", err=True)
        raise typer.Exit(EXIT_NOT_FOUND)
    if raw:
        sys.stdout.buffer.write(letter.message.body)
    elif output is OutputFormat.TABLE:
        for word, value in _row(letter).items():
            if value != "":
                sys.stdout.write(f"{word:<12} {plain(str(value), 1000)}\n")
        sys.stdout.write(f"{'body':<12} {plain(letter.message.body, 1000)}\n")
        if letter.stack:
            sys.stdout.write("\n" + "".join(f"{plain(line, 1000)}\n" for line in letter.stack.splitlines()))
    else:
        write_value({**_row(letter), "stack": letter.stack, "message": as_value(letter.message)}, output)


@app.command("groups")
def groups(
    name: Name,
    since: Since = None,
    until: Until = None,
    reasons: Reasons = None,
    group: Group = "",
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Group dead letters by error, most frequent first."""
    selection = _selection(None, since, until, reasons, group, "", None)

    async def use(mq: AsyncClient) -> list[ErrorGroup]:
        chosen = {word: selection[word] for word in ("since", "until", "reasons", "group_id")}
        return await mq.dead_letters(name).groups(**chosen)

    rows = [
        {
            "fingerprint": one.fingerprint,
            "letters": one.letters,
            "of": one.of,
            "reason": ",".join(_word(reason.name) for reason in one.reasons),
            "groups": ",".join(one.group_ids),
            "last_at": format_time(one.last_at),
            "example": one.message_id,
            "error": one.error or one.detail,
        }
        for one in with_client(url, config, use)
    ]
    if rows and output is OutputFormat.TABLE:
        sys.stdout.write(
            f"{rows[0]['letters']} of {rows[0]['of']} share this error: "
            f"{plain(str(rows[0]['error']) or 'no error')}\n\n"
        )
    columns = ["fingerprint", "letters", "reason", "groups", "last_at", "example", "error"]
    write_rows(rows, columns, output, none=f"{name} has no matching dead letters.")


@app.command("redrive")
def redrive(
    name: Name,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    reasons: Reasons = None,
    group: Group = "",
    fingerprint: Fingerprint = "",
    undecodable: Undecodable = None,
    rate: Annotated[
        int, typer.Option("--rate", min=0, help="Maximum messages per second on each broker; 0 means unlimited.")
    ] = 1000,
    ttl: Annotated[
        float | None,
        typer.Option("--ttl", min=0, help="New TTL in seconds; required for messages whose TTL has expired."),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send dead letters back to their topic, where every group receives them again.

    Without --yes, only counts them and exits with 1. Undecodable dead letters are skipped unless
    selected with --id or --undecodable. Ctrl-C stops the redrive; run the same command again to
    continue.
    """
    selection = _selection(ids, since, until, reasons, group, fingerprint, undecodable)

    async def use(mq: AsyncClient) -> None:
        started = await mq.dead_letters(name).redrive(**selection, messages_per_s=rate, ttl=ttl, dry_run=not yes)
        note_missing(started.missing)
        show_progress(await follow(started, output), "sent back", "would send back", output, dry_run=not yes)
        if not yes:
            _print_confirmation_hint(output, "")

    with_client(url, config, use)


@app.command("purge")
def purge(
    name: Name,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    reasons: Reasons = None,
    group: Group = "",
    fingerprint: Fingerprint = "",
    undecodable: Undecodable = None,
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Delete dead letters permanently. Without --yes, only counts them and exits with 1."""
    selection = _selection(ids, since, until, reasons, group, fingerprint, undecodable)

    async def use(mq: AsyncClient) -> None:
        started = await mq.dead_letters(name).purge(**selection, dry_run=not yes)
        note_missing(started.missing)
        show_progress(await follow(started, output), "purged", "would purge", output, dry_run=not yes)
        if not yes:
            _print_confirmation_hint(output, ". This cannot be undone")

    with_client(url, config, use)


def _print_confirmation_hint(output: OutputFormat, more: str) -> None:
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"Nothing was changed. Use --yes to apply{more}.\n")
    raise typer.Exit(EXIT_FAILED)


def _row(letter: DeadLetter) -> dict[str, object]:
    return {
        "died_at": _time(letter.died_at),
        "topic": letter.topic,
        "message_id": letter.message_id,
        "keys": ",".join(letter.keys),
        "broker": letter.broker,
        "group": letter.group_id,
        "reason": _word(letter.reason.name) + (f" ({letter.detail})" if letter.detail else ""),
        "tries": letter.tries,
        "consumer": letter.consumer,
        "fingerprint": letter.fingerprint,
        "error": letter.error,
    }


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _time(died_at: dt.datetime) -> str:
    return format_time(round(died_at.timestamp() * 1000))
