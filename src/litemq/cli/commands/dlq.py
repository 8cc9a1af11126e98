"""``litemq dlq``: list dead letters, see which errors they share, send them on, drop them."""

from __future__ import annotations

import datetime as dt
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import moment
from litemq.cli.nouns import new_noun
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
    """What ``--reason`` takes."""

    MAX_RETRY = "max-retry"
    TTL_EXPIRED = "ttl-expired"
    QUEUE_FULL = "queue-full"
    CONSUME_ERROR = "consume-error"
    FILTERED = "filtered"
    UNDECIDED = "undecided"


Name = Annotated[
    str, typer.Argument(metavar="TOPIC|GROUP", help="A topic, or a group: its dead letters in all topics.", show_default=False)
]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Of the message that died; may be repeated.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Died then or later; 2026-01-31T12:00:00Z.", show_default=False)]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Died before.", show_default=False)]
Reasons = Annotated[list[Reason] | None, typer.Option("--reason", help="Died for this reason; may be repeated.")]
Group = Annotated[str, typer.Option("--group", help="Died for this group.")]
Fingerprint = Annotated[str, typer.Option("--fingerprint", help="Died of this error, as `litemq dlq groups` names it.")]
Undecodable = Annotated[
    bool | None, typer.Option("--undecodable/--decodable", help="Only those whose body nobody could read, or all but those.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it.")]


@app.callback()
def dlq() -> None:
    """List dead letters, see which errors they share, send them on."""


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
        typer.Argument(metavar="TOPIC|GROUP", help="A topic, or a group; without one, how many each topic has.", show_default=False),
    ] = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    reasons: Reasons = None,
    group: Group = "",
    fingerprint: Fingerprint = "",
    undecodable: Undecodable = None,
    most: Annotated[int, typer.Option("-n", "--most", min=1, help="How many at most.")] = 100,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List dead letters, the oldest first; without a name, the topics that have any."""
    if name is None:
        _list_topics(url, config, output)
        return
    selection = _selection(ids, since, until, reasons, group, fingerprint, undecodable)

    async def use(mq: AsyncClient) -> list[DeadLetter]:
        return await mq.dead_letters(name).select(**selection, most=most)

    rows = [_row(letter) for letter in with_client(url, config, use)]
    columns = ["died_at", "topic", "message_id", "group", "reason", "tries", "fingerprint", "error"]
    write_rows(rows, columns, output, none=f"{name} has no such dead letters.")


def _list_topics(url: str | None, config: Any, output: OutputFormat) -> None:
    async def use(mq: AsyncClient) -> dict[str, int]:
        return await mq.admin.dead_letter_topics()

    rows = [{"topic": topic, "dead_letters": letters} for topic, letters in with_client(url, config, use).items()]
    write_rows(rows, ["topic", "dead_letters"], output, none="There are no dead letters.")


@app.command("show")
def show(
    name: Name,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the message that died.", show_default=False)],
    group: Group = "",
    raw: Annotated[bool, typer.Option("--raw", help="Write the body that was sent, byte by byte, and nothing else.")] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show one dead letter whole: what died, why, and where. Exits with 3 when there is none."""

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
    """Show which errors the dead letters share, the most frequent first."""
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
        sys.stdout.write(f"{rows[0]['letters']} of {rows[0]['of']} share this: {plain(str(rows[0]['error']) or 'no error')}\n\n")
    columns = ["fingerprint", "letters", "reason", "groups", "last_at", "example", "error"]
    write_rows(rows, columns, output, none=f"{name} has no such dead letters.")


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
    rate: Annotated[int, typer.Option("--rate", min=0, help="Messages a second on each broker; 0: as fast as it goes.")] = 1000,
    ttl: Annotated[
        float | None, typer.Option("--ttl", min=0, help="Seconds that they live from now on; needed by those whose time was over.")
    ] = None,
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send dead letters on to their topic, where every group gets them again. Without --yes it only counts them, and exits with 1.

    Undecodable ones stay, unless --id or --undecodable names them. Ctrl-C stops it where it is; the same command goes on with what is left.
    """
    selection = _selection(ids, since, until, reasons, group, fingerprint, undecodable)

    async def use(mq: AsyncClient) -> None:
        started = await mq.dead_letters(name).redrive(**selection, messages_per_s=rate, ttl=ttl, dry_run=not yes)
        show_progress(await follow(started, output), "sent on", "would send on", output, dry_run=not yes)
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
    """Drop dead letters for good. Without --yes it only counts them, and exits with 1."""
    selection = _selection(ids, since, until, reasons, group, fingerprint, undecodable)

    async def use(mq: AsyncClient) -> None:
        started = await mq.dead_letters(name).purge(**selection, dry_run=not yes)
        show_progress(await follow(started, output), "dropped", "would drop", output, dry_run=not yes)
        if not yes:
            _print_confirmation_hint(output, "; it cannot be undone")

    with_client(url, config, use)


def _print_confirmation_hint(output: OutputFormat, more: str) -> None:
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"Nothing was changed. Say --yes to do it{more}.\n")
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
