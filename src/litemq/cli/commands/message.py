"""``litemq message``: send, tail and look up messages, and explain why one was not consumed."""

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

from litemq.cli.bodies import ContentType, Raw, body_properties
from litemq.cli.completion import complete_group, complete_topic
from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import moment, seconds
from litemq.cli.nouns import new_noun
from litemq.cli.options import Keys, Properties, Tags
from litemq.cli.partial import accept_partial, partial_accepted
from litemq.cli.rendering.exit_codes import EXIT_NOT_FOUND
from litemq.cli.rendering.messages import as_value, receipt_as_value, write_message
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_value
from litemq.cli.waiting import noting_waits
from litemq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from litemq import AsyncClient, Message, SendReceipt
    from litemq.client.consuming.reader import Start
    from litemq.client.engine.engine import WhyInfo

__all__ = ["app"]

app = new_noun("message")

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=complete_topic)
]


class DurabilityChoice(StrEnum):
    """Values of ``--durability``."""

    NONE = "none"
    MEMORY = "memory"
    DISK = "disk"
    REPLICAS = "replicas"


@app.callback()
def message() -> None:
    """Send, tail and look up messages, and explain why one was not consumed."""


@app.command("send")
def send(
    topic: Topic,
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help="Body as text; - reads it from standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="File with the body.")] = None,
    content_type: ContentType = None,
    raw: Raw = False,
    keys: Keys = None,
    tags: Tags = None,
    properties: Properties = None,
    ordering_key: Annotated[
        str, typer.Option("--ordering-key", help="Ordering key: messages with the same key stay in order.")
    ] = "",
    durability: Annotated[
        DurabilityChoice | None,
        typer.Option("--durability", help="Guarantee of the acknowledgement; default: the broker's."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay",
            metavar="DURATION",
            help="Delay before delivery, such as 90s or 2h30m; a plain number is in seconds.",
            show_default=False,
        ),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option(
            "--deliver-at", metavar="TIME", help="Delivery time, such as 2026-01-31T12:00:00Z.", show_default=False
        ),
    ] = None,
    delay_level: Annotated[
        int | None,
        typer.Option("--delay-level", min=1, max=18, help="Delay as a RocketMQ level: 1 is 1 s, 18 is 2 hours."),
    ] = None,
    batch_id: Annotated[
        str, typer.Option("--batch-id", help="Batch of delayed messages, which can be cancelled together.")
    ] = "",
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send one message and show where it is stored.

    Sends the body unmodified. Consumers in Python get a JSON object or array as a dict or list,
    other text as a string, and everything else as bytes.
    """
    content = _body(body, file)
    named = body_properties(content, properties or [], content_type, raw=raw)
    due = None if deliver_at is None else moment(deliver_at, "--deliver-at")
    wait = None if delay is None else seconds(delay, "--delay")

    async def use(mq: AsyncClient) -> SendReceipt:
        async with noting_waits(mq):
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

    receipt = with_client(url, config, use)
    is_delayed = delay is not None or due is not None or delay_level is not None
    _write_receipt(receipt, output, is_delayed=is_delayed)


def _write_receipt(receipt: SendReceipt, output: OutputFormat, *, is_delayed: bool) -> None:
    if output is OutputFormat.TABLE:
        destination = f"{receipt.broker}, queue {receipt.queue_id}, offset {receipt.queue_offset}"
        if receipt.queue_offset < 0 and is_delayed and receipt.store_timestamp:
            destination = f"{receipt.broker}, to be delivered to queue {receipt.queue_id} when it is due"
        elif receipt.queue_offset < 0:
            destination = "queue and offset unknown, since no acknowledgement was requested"
        sys.stdout.write(f"sent {receipt.message_id} to {receipt.topic}: {destination}\n")
    else:
        write_value(receipt_as_value(receipt), output)


def _body(text: str | None, file: Path | None) -> bytes:
    if text is not None and file is not None:
        raise typer.BadParameter("give either BODY or --file, not both", param_hint="BODY")
    if text is None and file is None:
        raise typer.BadParameter("nothing to send: give BODY, - for standard input, or --file FILE", param_hint="BODY")
    if file is not None:
        return file.read_bytes()
    return sys.stdin.buffer.read() if text == "-" else (text or "").encode("utf-8", "surrogateescape")


@app.command("tail")
def tail(
    topic: Topic,
    limit: Annotated[int, typer.Option("-n", "--limit", min=0, help="Number of latest messages to print first.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f", help="Keep printing new messages until Ctrl-C.")
    ] = True,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="earliest|latest|TIME",
            help="Start position instead of --limit; a time is written like 2026-01-31T12:00:00Z.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Print the latest messages of a topic, then follow it.

    Does not affect any consumer group.

    JSON output has one message per line; with --no-follow, it is one list. Ctrl-C exits with 0.
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
        beginning = begin if begin is not None else await _last(mq, topic, limit, show)
        if begin is not None or follow:
            with partial_accepted():
                async for one in mq.reader(topic, start=beginning, follow=follow):
                    show(one)
        if as_list:
            write_value(shown, output)

    with_client(url, config, lambda mq: _until_interrupted(use(mq)))


async def _last(
    mq: AsyncClient, topic: str, count: int, show: Callable[[Message], None]
) -> Mapping[tuple[str, int], int]:
    """Show the last ``count`` messages of all queues, and return the end offset of each queue."""
    queues = (await accept_partial(mq.admin.describe_topic(topic))).queues
    ends = {(queue.broker, queue.queue_id): queue.next for queue in queues}
    if count:
        starts = {(queue.broker, queue.queue_id): max(queue.least, queue.next - count) for queue in queues}
        found = []
        with partial_accepted():
            async for one in mq.reader(topic, start=starts, follow=False):
                if one.queue_offset < ends.get((one.broker, one.queue_id), 0):
                    found.append(one)  # noqa: PERF401  what was read before a broker failed counts
        for one in sorted(found, key=lambda one: (one.store_timestamp, one.queue_offset))[-count:]:
            show(one)
    return ends


async def _until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work``; Ctrl-C and SIGTERM cancel it without an error."""
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
    message_id: Annotated[str | None, typer.Argument(metavar="ID", help="Message id.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option("--key", help="Key of the messages.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Time from which stored messages are returned.")
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Maximum number of messages.")] = 32,
    raw: Annotated[bool, typer.Option("--raw", help="Write only the body of the message, unmodified.")] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Look up messages by id, key or time. Exits with 3 if there are none."""
    if [message_id, key, at].count(None) != 2:
        raise typer.BadParameter("give exactly one of ID, --key KEY and --at TIME", param_hint="ID")
    since = None if at is None else moment(at, "--at")

    async def use(mq: AsyncClient) -> list[Message]:
        if since is not None:
            return await _from_time(mq, topic, since, limit)
        if message_id is not None:
            one = await accept_partial(mq.admin.get(topic, message_id))
            return [] if one is None else [one]
        return await mq.admin.find(topic, key or "", most=limit)

    found = with_client(url, config, use)
    if raw:
        _write_body(found)
    elif output is OutputFormat.TABLE:
        for one in found:
            write_message(one, output)
    else:
        write_value([as_value(one) for one in found], output)
    if not found:
        typer.echo(f"no matching message in topic {topic}", err=True)
        raise typer.Exit(EXIT_NOT_FOUND)


def _write_body(found: list[Message]) -> None:
    if len(found) > 1:
        raise InvalidArgumentError(
            f"--raw writes one message, but {len(found)} match: give its ID, or use --limit 1 for the first one"
        )
    for one in found:
        sys.stdout.buffer.write(one.body)


async def _from_time(mq: AsyncClient, topic: str, since: dt.datetime, limit: int) -> list[Message]:
    """Return the first ``limit`` messages stored at or after ``since``, across all queues."""
    remaining = dict.fromkeys(await accept_partial(mq.admin.offset_at_time(topic, since)), limit)
    found = []
    with partial_accepted():
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
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Message id.", show_default=False)],
    group: Annotated[
        str,
        typer.Option(
            "--group",
            help="Consumer group that should have consumed the message.",
            show_default=False,
            autocompletion=complete_group,
        ),
    ],
    topic: Annotated[
        str,
        typer.Option(
            "--topic", help="Topic of the message; default: search all topics.", autocompletion=complete_topic
        ),
    ] = "",
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Explain why a group has not consumed a message.

    Exits with 3 if the message does not exist, otherwise with 0.
    """

    async def use(mq: AsyncClient) -> WhyInfo:
        return await mq.admin.why(message_id, group_id=group, topic=topic)

    fact = with_client(url, config, use)
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"{plain(fact.sentence, 1000)}\n")
        if fact.advice:
            sys.stdout.write(f"Advice: {plain(fact.advice, 1000)}\n")
        if fact.facts:
            sys.stdout.write("\n" + "".join(f"{plain(line, 1000)}\n" for line in fact.facts))
    else:
        write_value(fact._asdict() | {"facts": list(fact.facts)}, output)
    if not fact.topic:
        raise typer.Exit(EXIT_NOT_FOUND)
