"""``litemq timer``: list, show, cancel and reschedule delayed messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from litemq.cli.completion import complete_topic
from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import moment, seconds
from litemq.cli.nouns import new_noun
from litemq.cli.options import Yes
from litemq.cli.partial import partial_accepted
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND
from litemq.cli.rendering.messages import as_value, format_time
from litemq.cli.rendering.output import Format, OutputFormat, duration, plain, write_rows, write_value

if TYPE_CHECKING:
    import datetime as dt

    from litemq import AsyncClient
    from litemq.client.engine.timers import CancelOutcome
    from litemq.client.timers.scheduled_message import ScheduledMessage

__all__ = ["app"]

app = new_noun("timer")

_MAX_COUNTED = 10_000

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=complete_topic)
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Message id.", show_default=False)]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Due at or after this time, such as 2026-01-31T12:00:00Z.", show_default=False
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Due before this time.", show_default=False)]


@app.callback()
def timer() -> None:
    """List, cancel and reschedule delayed messages."""


@app.command("list")
def list_(
    topic: Topic,
    since: Since = None,
    until: Until = None,
    key: Annotated[str, typer.Option("--key", help="Only messages with this key or id.")] = "",
    batch_id: Annotated[str, typer.Option("--batch-id", help="Only messages of this batch.")] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Maximum number to list.")] = 100,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the delayed messages of a topic, next due first."""
    begin = None if since is None else moment(since, "--since")
    end = None if until is None else moment(until, "--until")

    async def use(mq: AsyncClient) -> list[ScheduledMessage]:
        found: list[ScheduledMessage] = []
        with partial_accepted():
            async for message in mq.timers.list(topic, since=begin, until=end, key=key, batch_id=batch_id, most=limit):
                found.append(message)  # noqa: PERF401  what was listed before a broker failed counts
        return found

    rows = [_row(message) for message in with_client(url, config, use)]
    write_rows(
        rows,
        ["due_at", "message_id", "batch_id", "keys", "queue", "size"],
        output,
        none=f"{topic} has no matching delayed messages.",
    )


@app.command("show")
def show(
    topic: Topic, message_id: Id, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE
) -> None:
    """Show a delayed message and its state: scheduled, delivered or cancelled.

    Exits with 3 if it is unknown.
    """
    message = with_client(url, config, lambda mq: _known(mq, topic, message_id))
    if output is OutputFormat.TABLE:
        for word, value in _row(message).items():
            if value != "":
                sys.stdout.write(f"{word:<12} {plain(str(value), 1000)}\n")
        sys.stdout.write(f"{'body':<12} {plain(message.message.body, 1000)}\n")
    else:
        write_value({**_row(message), "message": as_value(message.message)}, output)


@app.command("cancel")
def cancel(
    topic: Topic,
    message_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Message ids.", show_default=False)],
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Cancel delayed messages.

    Without --yes, only shows them and exits with 1; also exits with 1 if one is not cancelled.
    """
    outcomes: dict[str, str]
    if yes:

        async def use(mq: AsyncClient) -> dict[str, CancelOutcome]:
            return await mq.timers.cancel_many(topic, message_ids)

        outcomes = {message_id: outcome.value for message_id, outcome in with_client(url, config, use).items()}
    else:

        async def look(mq: AsyncClient) -> dict[str, str]:
            found = {message_id: await mq.timers.get(topic, message_id) for message_id in message_ids}
            return {message_id: "unknown" if one is None else one.state.value for message_id, one in found.items()}

        outcomes = with_client(url, config, look)
    word = "outcome" if yes else "state"
    write_rows(
        [{"message_id": each, word: outcome} for each, outcome in outcomes.items()],
        ["message_id", word],
        output,
        none="",
    )
    if not yes:
        _print_confirmation_hint(output, "cancel the scheduled messages. This cannot be undone")
    if set(outcomes.values()) - {"cancelled", "cancelled-before"}:
        raise typer.Exit(EXIT_FAILED)


@app.command("cancel-batch")
def cancel_batch(
    topic: Topic,
    batch_id: Annotated[str, typer.Argument(metavar="BATCH", help="batch_id of the messages.", show_default=False)],
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Cancel all delayed messages of a batch. Without --yes, only counts them and exits with 1."""

    async def use(mq: AsyncClient) -> int:
        if yes:
            await mq.timers.cancel_batch(topic, batch_id)
            return 0
        count = 0
        with partial_accepted():
            async for _ in mq.timers.list(topic, batch_id=batch_id, most=_MAX_COUNTED):
                count += 1
        return count

    count = with_client(url, config, use)
    if yes:
        if output is OutputFormat.TABLE:
            sys.stdout.write(f"cancelled batch {plain(batch_id)} in {topic}\n")
        else:
            write_value({"topic": topic, "batch_id": batch_id, "cancelled": True}, output)
        return
    more = " or more" if count == _MAX_COUNTED else ""
    if output is OutputFormat.TABLE:
        messages = "message" if count == 1 else "messages"
        sys.stdout.write(f"scheduled in {topic}: {count}{more} {messages} of batch {plain(batch_id)}\n")
    else:
        write_value({"topic": topic, "batch_id": batch_id, "waiting": count, "cancelled": False}, output)
    _print_confirmation_hint(output, "cancel them. This cannot be undone")


@app.command("reschedule")
def reschedule(
    topic: Topic,
    message_id: Id,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay",
            metavar="DURATION",
            help="Delay from now, such as 90s or 2h30m; a plain number is in seconds.",
            show_default=False,
        ),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option(
            "--deliver-at", metavar="TIME", help="Delivery time, such as 2026-01-31T12:00:00Z.", show_default=False
        ),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Change the delivery time of a delayed message.

    Without --yes, only shows the message and exits with 1.
    """
    if (delay is None) == (deliver_at is None):
        raise typer.BadParameter("give exactly one of --delay DURATION and --deliver-at TIME", param_hint="--delay")
    due = None if deliver_at is None else moment(deliver_at, "--deliver-at")
    wait = None if delay is None else seconds(delay, "--delay")

    async def use(mq: AsyncClient) -> ScheduledMessage:
        if not yes:
            return await _known(mq, topic, message_id)
        return await mq.timers.reschedule(topic, message_id, delay=wait, deliver_at=due)

    message = with_client(url, config, use)
    if output is not OutputFormat.TABLE:
        write_value(_row(message), output)
    elif yes:
        sys.stdout.write(f"{message.message_id} is due at {_time(message.due_at)}\n")
    else:
        sys.stdout.write(f"{message.message_id} is {message.state.value} and due at {_time(message.due_at)}\n")
    if not yes:
        _print_confirmation_hint(
            output, f"deliver it {f'in {duration((wait or 0) * 1000)}' if due is None else f'at {_time(due)}'}"
        )


async def _known(mq: AsyncClient, topic: str, message_id: str) -> ScheduledMessage:
    found = await mq.timers.get(topic, message_id)
    if found is None:
        typer.echo(f"{topic} has no delayed message {message_id}", err=True)
        raise typer.Exit(EXIT_NOT_FOUND)
    return found


def _print_confirmation_hint(output: OutputFormat, what: str) -> None:
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"Nothing was changed. Use --yes to {what}.\n")
    raise typer.Exit(EXIT_FAILED)


def _row(message: ScheduledMessage) -> dict[str, object]:
    moved = message.sent_for != message.due_at
    return {
        "due_at": _time(message.due_at),
        "message_id": message.message_id,
        "topic": message.topic,
        "state": message.state.value,
        "batch_id": message.batch_id,
        "keys": ",".join(message.keys),
        "broker": message.broker,
        "queue": message.queue_id,
        "size": message.size,
        "sent_at": _time(message.sent_at),
        "sent_for": _time(message.sent_for) if moved else "",
    }


def _time(moment: dt.datetime) -> str:
    return format_time(round(moment.timestamp() * 1000))
