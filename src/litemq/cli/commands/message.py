"""``litemq message``: send messages, follow a topic, look one up, ask why it was not consumed."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import moment, seconds
from litemq.cli.nouns import new_noun
from litemq.cli.options import named_values
from litemq.cli.rendering.exit_codes import EXIT_NOT_FOUND
from litemq.cli.rendering.messages import as_value, receipt_as_value, write_message
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_value
from litemq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from litemq import AsyncClient, Message, SendReceipt
    from litemq.client.consuming.reader import Start
    from litemq.client.engine.engine import WhyFact

__all__ = ["app"]

app = new_noun("message")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]


class DurabilityChoice(StrEnum):
    """What ``--durability`` takes."""

    NONE = "none"
    MEMORY = "memory"
    DISK = "disk"
    REPLICAS = "replicas"


@app.callback()
def message() -> None:
    """Send messages, follow a topic, look one up, ask why it was not consumed."""


@app.command("send")
def send(
    topic: Topic,
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="The body, as text; - reads it from standard input.")] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="A file that is the body, byte by byte.")] = None,
    keys: Annotated[list[str] | None, typer.Option("--key", help="A key to find it by; may be repeated.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.")] = None,
    properties: Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="May be repeated.")] = None,
    ordering_key: Annotated[str, typer.Option("--ordering-key", help="Messages with the same one stay in order.")] = "",
    durability: Annotated[
        DurabilityChoice | None,
        typer.Option("--durability", help="What the acknowledgement promises; default: what the broker's settings say."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="DURATION", help="Deliver it so much later: 90s, 2h30m, or seconds.", show_default=False),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option("--deliver-at", metavar="TIME", help="Deliver it then; 2026-01-31T12:00:00Z.", show_default=False),
    ] = None,
    delay_level: Annotated[
        int | None, typer.Option("--delay-level", min=1, max=18, help="Deliver it later, by RocketMQ's levels: 1 is 1 s, 18 is 2 hours.")
    ] = None,
    batch_id: Annotated[str, typer.Option("--batch-id", help="Delayed messages with the same one can be cancelled together.")] = "",
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send one message, and say where it is stored."""
    content = _body(body, file)
    named = named_values(properties or [])
    due = None if deliver_at is None else moment(deliver_at, "--deliver-at")
    wait = None if delay is None else seconds(delay, "--delay")

    async def use(mq: AsyncClient) -> SendReceipt:
        return await mq.send(
            topic,
            content,
            keys=keys or (),
            tags=tags or (),
            properties=named,
            ordering_key=ordering_key,
            durability=None if durability is None else durability.value,
            delay=wait,
            deliver_at=due,
            delay_level=delay_level,
            batch_id=batch_id,
        )

    is_delayed = delay is not None or due is not None or delay_level is not None
    receipt = with_client(url, config, use)
    if output is OutputFormat.TABLE:
        destination = f"{receipt.broker}, queue {receipt.queue_id}, offset {receipt.queue_offset}"
        if receipt.queue_offset < 0 and is_delayed and receipt.store_timestamp:
            destination = f"{receipt.broker}, to be delivered to queue {receipt.queue_id} when it is due"
        elif receipt.queue_offset < 0:
            destination = "nobody waited for an acknowledgement, so its place is not known"
        sys.stdout.write(f"sent {receipt.message_id} to {topic}: {destination}\n")
    else:
        write_value(receipt_as_value(receipt), output)


def _body(text: str | None, file: Path | None) -> bytes:
    if text is not None and file is not None:
        raise typer.BadParameter("say only one of BODY and --file FILE", param_hint="BODY")
    if text is None and file is None:
        raise typer.BadParameter("say what to send: BODY, - for standard input, or --file FILE", param_hint="BODY")
    if file is not None:
        return file.read_bytes()
    return sys.stdin.buffer.read() if text == "-" else (text or "").encode("utf-8", "surrogateescape")


@app.command("tail")
def tail(
    topic: Topic,
    most: Annotated[int, typer.Option("-n", "--last", min=0, help="How many of the last messages come first.")] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f", help="Go on with those that come, until Ctrl-C.")] = True,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="earliest|latest|TIME", help="Begin there instead; a time such as 2026-01-31T12:00:00Z.", show_default=False
        ),
    ] = None,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Print the last messages of a topic, then those that come. No group is involved: nobody else's messages are taken.

    As JSON, each message is a line; with --no-follow, all are one list. Ctrl-C ends it with 0.
    """
    begin: Start | None = None
    if start is not None:
        begin = "earliest" if start == "earliest" else "latest" if start == "latest" else moment(start, "--from")

    as_list = not follow and output is not OutputFormat.TABLE
    shown: list[dict[str, object]] = []

    def show(one: Message) -> None:
        if as_list:
            shown.append(as_value(one))
        else:
            write_message(one, output)

    async def use(mq: AsyncClient) -> None:
        beginning = begin if begin is not None else await _last(mq, topic, most, show)
        if begin is not None or follow:
            async for one in mq.reader(topic, start=beginning, follow=follow):
                show(one)
        if as_list:
            write_value(shown, output)

    with_client(url, config, lambda mq: _until_interrupted(use(mq)))


async def _last(mq: AsyncClient, topic: str, count: int, show: Callable[[Message], None]) -> Mapping[tuple[str, int], int]:
    """Show the last messages of all queues together, and return where the queues continue."""
    queues = (await mq.admin.describe_topic(topic)).queues
    ends = {(queue.broker, queue.queue_id): queue.next for queue in queues}
    if count:
        starts = {(queue.broker, queue.queue_id): max(queue.least, queue.next - count) for queue in queues}
        found = [one async for one in mq.reader(topic, start=starts, follow=False) if one.queue_offset < ends[one.broker, one.queue_id]]
        for one in sorted(found, key=lambda one: (one.store_timestamp, one.queue_offset))[-count:]:
            show(one)
    return ends


async def _until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """Ctrl-C and SIGTERM end it, and nothing is wrong then."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@app.command("get")
def get(
    topic: Topic,
    message_id: Annotated[str | None, typer.Argument(metavar="ID", help="The message's id.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option("--key", help="All messages with this key.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="The first messages that were stored then or later.")] = None,
    most: Annotated[int, typer.Option("-n", "--most", min=1, max=1000, help="How many messages at most.")] = 32,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the body of the one message that is found, byte by byte, and nothing else.")
    ] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Look messages up by id, by key or by time. Exits with 3 when there is none."""
    if [message_id, key, at].count(None) != 2:
        raise typer.BadParameter("say one of ID, --key KEY and --at TIME", param_hint="ID")
    since = None if at is None else moment(at, "--at")

    async def use(mq: AsyncClient) -> list[Message]:
        if since is not None:
            return await _from_time(mq, topic, since, most)
        return await mq.admin.find(topic, message_id or key or "", most=most)

    found = with_client(url, config, use)
    if raw:
        _write_body(found)
    elif output is OutputFormat.TABLE:
        for one in found:
            write_message(one, output)
    else:
        write_value([as_value(one) for one in found], output)
    if not found:
        typer.echo(f"topic {topic} has no such message", err=True)
        raise typer.Exit(EXIT_NOT_FOUND)


def _write_body(found: list[Message]) -> None:
    if len(found) > 1:
        raise InvalidArgumentError(f"--raw writes one message, but {len(found)} were found: name its ID, or say -n 1 for the first one")
    for one in found:
        sys.stdout.buffer.write(one.body)


async def _from_time(mq: AsyncClient, topic: str, since: dt.datetime, limit: int) -> list[Message]:
    """The first messages from a time on, of all queues together."""
    remaining = dict.fromkeys(await mq.admin.offset_at_time(topic, since), limit)
    found = []
    async for one in mq.reader(topic, start=since, follow=False):
        queue = one.broker, one.queue_id
        remaining[queue] = remaining.get(queue, limit) - 1
        if remaining[queue] >= 0:
            found.append(one)
        if max(remaining.values()) <= 0:
            break
    return sorted(found, key=lambda one: (one.store_timestamp, one.queue_offset))[:limit]


@app.command("why")
def why(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)],
    group: Annotated[str, typer.Option("--group", help="The group that should have consumed it.", show_default=False)],
    topic: Annotated[str, typer.Option("--topic", help="Its topic; without it, all are looked through.")] = "",
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Say why a group has not consumed a message. Exits with 0 whatever the answer is, and with 3 where there is no such message."""

    async def use(mq: AsyncClient) -> WhyFact:
        return await mq.admin.why(message_id, group_id=group, topic=topic)

    fact = with_client(url, config, use)
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"{plain(fact.sentence, 1000)}\n")
        if fact.advice:
            sys.stdout.write(f"To do: {plain(fact.advice, 1000)}\n")
        if fact.facts:
            sys.stdout.write("\n" + "".join(f"{plain(line, 1000)}\n" for line in fact.facts))
    else:
        write_value(fact._asdict() | {"facts": list(fact.facts)}, output)
    if not fact.topic:
        raise typer.Exit(EXIT_NOT_FOUND)
