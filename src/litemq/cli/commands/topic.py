"""``litemq topic``: create, alter, describe and delete topics, and show their archives."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from litemq.cli.completion import complete_topic
from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.moments import seconds
from litemq.cli.nouns import new_noun
from litemq.cli.options import Yes
from litemq.cli.partial import accept_partial, note_missing
from litemq.cli.rendering.output import Format, OutputFormat, counted, duration, write_rows, write_value
from litemq.errors import TopicNotFoundError
from litemq.schemas.compatibility import check_schema
from litemq.types import (
    MAX_REPLICAS,
    ArchivedChoice,
    CompatibilityChoice,
    Priorities,
    ReplicaAckChoice,
    VisibilityChoice,
    WhenFull,
)

if TYPE_CHECKING:
    from litemq import AsyncClient
    from litemq.client.engine.archives import ArchiveInfo
    from litemq.client.engine.engine import TopicInfo

__all__ = ["app"]

app = new_noun("topic")

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=complete_topic)
]


def _duration(flag: str, explanation: str) -> Any:
    return typer.Option(flag, metavar="DURATION", help=explanation, show_default=False)


Ttl = Annotated[
    str | None, _duration("--ttl", "Default TTL of messages sent without one, such as 2h; 0 means no expiry.")
]
Retention = Annotated[
    str | None,
    _duration("--retention", "Maximum age of messages, such as 7d; 0 means that only the broker's limits apply."),
]
ArchiveWait = Annotated[
    str | None,
    _duration("--archive-wait", "Time that retention waits for the archive with drop-with-record, such as 7d."),
]
CheckAfter = Annotated[
    str | None,
    _duration("--check-after", "Time before the broker first asks producers for a transaction's outcome."),
]
CheckEvery = Annotated[str | None, _duration("--check-every", "Time between further checks.")]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="File with the JSON schema of the bodies.",
        show_default=False,
    ),
]
CompatibilityOption = Annotated[
    CompatibilityChoice | None,
    typer.Option(
        "--compatibility",
        help="Check of a new schema: backward (it must accept all stored messages) or none.",
        show_default=False,
    ),
]
_VISIBILITY_HELP: Final = (
    "Messages that consumers read: confirmed (safe from a power cut) or received (earlier, but not safe)."
)
_REPLICA_ACK_HELP: Final = (
    "Where each replica in sync has a message of durability replicas when it is acknowledged: disk or memory."
)
_MIN_IN_SYNC_HELP: Final = (
    "Least number of replicas in sync for durability replicas; the setting of the group counts, too, if it is higher."
)
MaxChecks = Annotated[
    int | None,
    typer.Option(
        "--max-checks", min=0, help="Number of checks before the transaction becomes a dead letter.", show_default=False
    ),
]


def _seconds(duration: str | None, flag: str) -> float | None:
    return None if duration is None else seconds(duration, flag)


@app.callback()
def topic() -> None:
    """Create, alter, describe and delete topics."""


@app.command("create")
def create(
    name: Topic,
    queues: Annotated[int, typer.Option("--queues", min=1, max=65536, help="Number of queues on each broker.")] = 4,
    brokers: Annotated[
        list[str] | None, typer.Option("--broker", help="Broker to create the topic on; repeatable; default: all.")
    ] = None,
    priorities: Annotated[
        Priorities,
        typer.Option("--priorities", help="Priority classes: none, strict (highest first) or weighted (shared)."),
    ] = "none",
    ttl: Ttl = None,
    retention: Retention = None,
    max_backlog: Annotated[
        int, typer.Option("--max-backlog", min=0, help="Maximum unconsumed messages per queue; 0 means the default.")
    ] = 0,
    when_full: Annotated[
        WhenFull, typer.Option("--when-full", help="Action for messages above --max-backlog.")
    ] = "reject",
    archived: Annotated[
        ArchivedChoice,
        typer.Option(
            "--archived",
            help="Whether retention waits for the archive: no, block (until archived), drop-with-record (up to "
            "--archive-wait).",
        ),
    ] = "no",
    archive_wait: ArchiveWait = None,
    check_after: CheckAfter = None,
    check_every: CheckEvery = None,
    max_checks: MaxChecks = None,
    visibility: Annotated[VisibilityChoice, typer.Option("--visibility", help=_VISIBILITY_HELP)] = "confirmed",
    replica_ack: Annotated[ReplicaAckChoice, typer.Option("--replica-ack", help=_REPLICA_ACK_HELP)] = "disk",
    min_in_sync: Annotated[int, typer.Option("--min-in-sync", min=0, max=MAX_REPLICAS, help=_MIN_IN_SYNC_HELP)] = 0,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Create a topic. An existing topic is not changed."""

    async def use(mq: AsyncClient) -> TopicInfo:
        created = await mq.admin.create_topic(
            name,
            queues=queues,
            brokers=brokers or None,
            priorities=priorities,
            ttl=_seconds(ttl, "--ttl"),
            retention=_seconds(retention, "--retention"),
            max_backlog=max_backlog,
            when_full=when_full,
            archived=archived,
            archive_wait=_seconds(archive_wait, "--archive-wait"),
            check_after=_seconds(check_after, "--check-after"),
            check_every=_seconds(check_every, "--check-every"),
            max_checks=max_checks,
            visibility=visibility,
            replica_ack=replica_ack,
            min_in_sync=min_in_sync,
        )
        if not brokers:
            # The others get the topic when the command is repeated.
            down = [broker.name for broker in await mq.admin.brokers() if not broker.alive]
            note_missing(dict.fromkeys(down, "repeat the command when it is back, to create the topic there, too"))
        return created

    _show(with_client(url, config, use), output)


@app.command("alter")
def alter(
    name: Topic,
    ttl: Ttl = None,
    retention: Retention = None,
    max_backlog: Annotated[
        int | None,
        typer.Option(
            "--max-backlog",
            min=0,
            help="Maximum unconsumed messages per queue; 0 means the default.",
            show_default=False,
        ),
    ] = None,
    when_full: Annotated[
        WhenFull | None,
        typer.Option("--when-full", help="Action for messages above --max-backlog.", show_default=False),
    ] = None,
    priorities: Annotated[
        Literal["strict", "weighted"] | None,
        typer.Option(
            "--priorities",
            help="Order of delivery under leases: strict (highest first) or weighted (shared).",
            show_default=False,
        ),
    ] = None,
    archived: Annotated[
        ArchivedChoice | None,
        typer.Option(
            "--archived",
            help="Whether retention waits for the archive: no, block (until archived), drop-with-record (up to "
            "--archive-wait).",
            show_default=False,
        ),
    ] = None,
    archive_wait: ArchiveWait = None,
    check_after: CheckAfter = None,
    check_every: CheckEvery = None,
    max_checks: MaxChecks = None,
    schema: SchemaFile = None,
    compatibility: CompatibilityOption = None,
    visibility: Annotated[
        VisibilityChoice | None, typer.Option("--visibility", help=_VISIBILITY_HELP, show_default=False)
    ] = None,
    replica_ack: Annotated[
        ReplicaAckChoice | None, typer.Option("--replica-ack", help=_REPLICA_ACK_HELP, show_default=False)
    ] = None,
    min_in_sync: Annotated[
        int | None,
        typer.Option("--min-in-sync", min=0, max=MAX_REPLICAS, help=_MIN_IN_SYNC_HELP, show_default=False),
    ] = None,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Change settings of a topic. Omitted settings keep their values."""
    given = None if schema is None else dict(check_schema(schema.read_text()))

    async def use(mq: AsyncClient) -> TopicInfo:
        return await mq.admin.alter_topic(
            name,
            ttl=_seconds(ttl, "--ttl"),
            retention=_seconds(retention, "--retention"),
            max_backlog=max_backlog,
            when_full=when_full,
            priorities=priorities,
            archived=archived,
            archive_wait=_seconds(archive_wait, "--archive-wait"),
            check_after=_seconds(check_after, "--check-after"),
            check_every=_seconds(check_every, "--check-every"),
            max_checks=max_checks,
            schema=given,
            compatibility=compatibility,
            visibility=visibility,
            replica_ack=replica_ack,
            min_in_sync=min_in_sync,
        )

    _show(with_client(url, config, use), output)


@app.command("schema")
def schema(name: Topic, url: Url = None, config: ClientFile = None) -> None:
    """Print the JSON schema of a topic's bodies."""

    async def use(mq: AsyncClient) -> TopicInfo:
        return await accept_partial(mq.admin.describe_topic(name))

    schemas = with_client(url, config, use).settings.schemas
    if schemas:
        sys.stdout.write(json.dumps(json.loads(schemas[-1]), ensure_ascii=False, indent=2) + "\n")
        return
    sys.stderr.write(
        f"topic {name} has no schema. A program sets it with mq.topic({name!r}, TYPE), "
        f"and `litemq topic alter {name} --schema FILE` does\n"
    )
    raise typer.Exit(1)


@app.command("archive")
def archive(
    name: Topic,
    moved_to: Annotated[
        str,
        typer.Option(
            "--moved-to",
            metavar="LOCATION",
            help="Record that the archive has moved to this location.",
            show_default=False,
        ),
    ] = "",
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show the location and progress of a topic's archive."""

    async def use(mq: AsyncClient) -> tuple[ArchiveInfo, TopicInfo]:
        call = mq.admin.move_archive(name, moved_to) if moved_to else mq.admin.describe_archive(name)
        fact = await accept_partial(call)
        return fact, await accept_partial(mq.admin.describe_topic(name))

    fact, described = with_client(url, config, use)
    ends = {(one.broker, one.queue_id): one.next for one in described.queues}
    rows = [
        {
            "broker": one.broker,
            "queue": one.queue_id,
            "from": one.begin,
            "to": one.next,
            "behind": ends.get((one.broker, one.queue_id), one.next) - one.next,
        }
        for one in fact.queues
    ]
    reported = (
        datetime.fromtimestamp(fact.reported_at / 1000, UTC).isoformat(timespec="seconds") if fact.reported_at else "-"
    )
    if output is not OutputFormat.TABLE:
        write_value(
            {
                "topic": name,
                "location": fact.location,
                "reported_at": reported if fact.reported_at else None,
                "queues": rows,
            },
            output,
        )
        return
    if not fact.location:
        sys.stdout.write(f"topic {name}: not archived yet\n")
        return
    sys.stdout.write(f"topic {name}: archived in {fact.location}, last report at {reported}\n\n")
    write_rows(rows, ["broker", "queue", "from", "to", "behind"], output, none="The archive is empty.")


@app.command("delete")
def delete(
    name: Topic,
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
) -> None:
    """Delete a topic and its messages.

    Without --yes, only shows what would be deleted and exits with 1.
    """

    async def use(mq: AsyncClient) -> None:
        try:
            fact = await accept_partial(mq.admin.describe_topic(name))
        except TopicNotFoundError:  # without the advice to create it
            raise TopicNotFoundError(f"topic {name!r} does not exist: `litemq topic list` shows all topics") from None
        brokers = sorted({queue.broker for queue in fact.queues})
        messages = sum(queue.next - queue.least for queue in fact.queues)
        queues = counted(len(fact.queues), "queue")
        what = f"topic {name} with {queues} on {', '.join(brokers)} and {counted(messages, 'message')}"
        if yes:
            await mq.admin.delete_topic(name)
        sys.stdout.write(f"{'deleted' if yes else 'would delete'} {what}\n")
        if not yes:
            sys.stdout.write("Nothing was changed. Use --yes to apply. This cannot be undone.\n")
            raise typer.Exit(1)

    with_client(url, config, use)


@app.command("list")
def list_(url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """List topics."""

    async def use(mq: AsyncClient) -> dict[str, int]:
        return await mq.admin.topics()

    found = with_client(url, config, use)
    rows = [{"topic": name, "queues": queues} for name, queues in sorted(found.items())]
    write_rows(
        rows, ["topic", "queues"], output, none="There are no topics yet. Create one with: litemq topic create NAME"
    )


@app.command("describe")
def describe(name: Topic, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Show a topic's settings and queues."""

    async def use(mq: AsyncClient) -> TopicInfo:
        return await mq.admin.describe_topic(name)

    _show(with_client(url, config, use), output)


def _show(fact: TopicInfo, output: OutputFormat) -> None:
    rows = [
        {
            "broker": one.broker,
            "queue": one.queue_id,
            "from": one.least,
            "to": one.next,
            "messages": one.next - one.least,
        }
        for one in fact.queues
    ]
    if output is OutputFormat.TABLE:
        messages = sum(one.next - one.least for one in fact.queues)
        size = f"{counted(len(rows), 'queue')}, {counted(messages, 'message')}"
        sys.stdout.write(f"topic {fact.topic}: {size}{_settings(fact)}\n\n")
        write_rows(rows, ["broker", "queue", "from", "to", "messages"], output, none="The topic has no queues.")
    else:
        settings = {**fact.settings._asdict(), "schemas": [json.loads(each) for each in fact.settings.schemas]}
        write_value({"topic": fact.topic, "settings": settings, "queues": rows}, output)


def _settings(fact: TopicInfo) -> str:
    """Format the settings that differ from their defaults."""
    chosen = fact.settings
    parts = []
    if chosen.priorities != "none":
        parts.append(f"{chosen.priorities} priorities")
    if chosen.ttl_ms:
        parts.append(f"ttl {duration(chosen.ttl_ms)}")
    if chosen.retention_ms:
        parts.append(f"retention {duration(chosen.retention_ms)}")
    if chosen.max_backlog:
        parts.append(f"max backlog {chosen.max_backlog}")
    if chosen.when_full != "reject":
        parts.append("excess messages become dead letters")
    if chosen.archived != "no":
        parts.append(f"archived: {chosen.archived}")
    if chosen.archive_wait_ms:
        parts.append(f"archive wait {duration(chosen.archive_wait_ms)}")
    if chosen.check_after_ms:
        parts.append(f"transactions checked after {duration(chosen.check_after_ms)}")
    if chosen.check_every_ms:
        parts.append(f"checked again every {duration(chosen.check_every_ms)}")
    if chosen.max_checks:
        parts.append(f"max checks {chosen.max_checks}")
    if chosen.schemas:
        title = json.loads(chosen.schemas[-1]).get("title", "of the bodies")
        parts.append(f"schema {title} (version {len(chosen.schemas)})")
    if chosen.compatibility != "backward":
        parts.append(f"compatibility {chosen.compatibility}")
    if chosen.visibility != "confirmed":
        parts.append(f"visibility {chosen.visibility}")
    if chosen.replica_ack != "disk":
        parts.append(f"replica ack {chosen.replica_ack}")
    if chosen.min_in_sync:
        parts.append(f"min in sync {chosen.min_in_sync}")
    return "".join(f", {each}" for each in parts)
