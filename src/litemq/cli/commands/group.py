"""``litemq group``: inspect, reset, pause and delete consumer groups."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litemq.cli.completion import complete_group, complete_topic
from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.nouns import new_noun
from litemq.cli.options import Yes
from litemq.cli.partial import accept_partial
from litemq.cli.rendering.output import Format, OutputFormat, counted, write_rows, write_value
from litemq.errors import InvalidArgumentError, PartialAnswerError

if TYPE_CHECKING:
    from litemq import AsyncClient
    from litemq.client.engine.groups import GroupDescription, GroupSummary, ResetPlan

__all__ = ["app"]

app = new_noun("group")

Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="Consumer group.", show_default=False, autocompletion=complete_group)
]
Topic = Annotated[
    str,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Topic that the group reads.",
        show_default=False,
        autocompletion=complete_topic,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Reset even if consumers are connected; they restart from the new offsets.",
        allow_from_autoenv=False,
    ),
]

_NOT_DONE = "Nothing was changed. Use --yes to apply.\n"


@app.callback()
def group() -> None:
    """Inspect, reset, pause and delete consumer groups."""


@app.command("list")
def list_(url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """List consumer groups."""

    async def use(mq: AsyncClient) -> list[GroupSummary]:
        return await mq.admin.groups()

    rows = [
        {
            "group": one.group,
            "members": one.members,
            "lag": one.lag,
            "state": _state(one.paused),
            "topics": ", ".join(one.topics),
        }
        for one in with_client(url, config, use)
    ]
    none = "There are no groups yet. A group is created by its first consumer."
    write_rows(rows, ["group", "members", "lag", "state", "topics"], output, none=none)


@app.command("describe")
def describe(name: Group, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Show a group's offsets and lag per queue, its members, and its resets."""

    async def use(mq: AsyncClient) -> GroupDescription:
        return await mq.admin.describe_group(name)

    fact = with_client(url, config, use)
    queues: list[dict[str, object]] = [
        {
            "topic": one.topic,
            "broker": one.broker,
            "queue": "retries" if one.is_retry else one.queue_id,
            "committed": one.committed if one.committed >= 0 else "-",
            "end": one.next,
            "lag": one.lag,
            "in_flight": one.in_flight,
            "oldest": _moment(one.oldest),
            "lost": one.lost,
            "member": one.member or "-",
        }
        for one in fact.queues
    ]
    members = [
        {"member": one.member, "broker": one.broker, "from": one.peer, "topic": one.topic, "queues": one.queues}
        for one in fact.members
    ]
    resets = [
        {"reset": one.reset_id, "at": _moment(one.at), "queues": one.queues, "undoes": one.undoes or "-"}
        for one in fact.resets
    ]
    if output is not OutputFormat.TABLE:
        facts = {"group": name, "state": _state(fact.paused), "lag": fact.lag, "pending_retries": fact.waiting_tries}
        facts |= {"lost_by_retention": fact.lost, "last_lost_at": _moment(fact.lost_at) if fact.lost else None}
        write_value(facts | {"queues": queues, "members": members, "resets": resets}, output)
        return
    retries = f"{fact.waiting_tries} {'retry' if fact.waiting_tries == 1 else 'retries'} pending"
    sys.stdout.write(f"group {name}: {_state(fact.paused)}, lag {fact.lag}, {retries}\n")
    if fact.lost:
        lost = counted(fact.lost, "unread message")
        sys.stdout.write(f"lost by retention: {lost}, the last at {_moment(fact.lost_at)}\n")
    sys.stdout.write("\n")
    columns = ["topic", "broker", "queue", "committed", "end", "lag", "in_flight", "oldest", "lost", "member"]
    write_rows(queues, columns, output, none="The group has not read any queue yet.")
    sys.stdout.write("\n")
    write_rows(members, ["member", "broker", "from", "topic", "queues"], output, none="No members in queue mode.")
    if resets:
        sys.stdout.write("\n")
        write_rows(resets, ["reset", "at", "queues", "undoes"], output, none="")


@app.command("reset")
def reset(
    name: Group,
    topic: Topic,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="POSITION",
            help="New position: earliest, latest, or a time such as 2030-01-31T12:00:00+08:00.",
            show_default=False,
        ),
    ] = "",
    offset: Annotated[
        int | None, typer.Option("--offset", min=0, help="New offset in each queue.", show_default=False)
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            "--shift", help="Number of messages to skip in each queue; negative to go back.", show_default=False
        ),
    ] = None,
    yes: Yes = False,
    force: Force = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Reset a group's offsets.

    Without --yes, only shows the plan and exits with 1. Can be undone.
    """
    if (to != "") + (offset is not None) + (shift is not None) != 1:
        raise typer.BadParameter("give exactly one of --to POSITION, --offset and --shift", param_hint="--to")
    target: dict[str, Any] = {"offset": offset, "shift": shift}
    if to:
        target |= {"to": to} if to in ("earliest", "latest") else {"time": _time(to)}

    async def use(mq: AsyncClient) -> ResetPlan:
        with suppress(PartialAnswerError):  # a broker that does not answer may not know the group
            await mq.admin.describe_group(name)  # a misspelt name would create a group
        plan = await mq.admin.plan_reset(topic, name, **target)
        return await mq.admin.reset(plan, force=force) if yes else plan

    _show(with_client(url, config, use), output, done=yes, undoing=False)


@app.command("undo")
def undo(
    name: Group,
    topic: Topic,
    reset_id: Annotated[
        str, typer.Option("--reset", metavar="ID", help="Reset to undo; default: the latest.", show_default=False)
    ] = "",
    yes: Yes = False,
    force: Force = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Undo a reset and restore the previous offsets.

    Without --yes, only shows the plan and exits with 1.
    """

    async def use(mq: AsyncClient) -> ResetPlan:
        if yes:
            return await mq.admin.undo_reset(topic, name, reset_id=reset_id, force=force)
        return await mq.admin.plan_undo(topic, name, reset_id=reset_id)

    _show(with_client(url, config, use), output, done=yes, undoing=True)


@app.command("pause")
def pause(name: Group, url: Url = None, config: ClientFile = None) -> None:
    """Pause a group: its consumers receive no messages until it is resumed.

    Messages already fetched are still handled.
    """

    async def use(mq: AsyncClient) -> None:
        await mq.admin.pause_group(name)

    with_client(url, config, use)
    sys.stdout.write(f"paused group {name}; resume it with: litemq group resume {name}\n")


@app.command("resume")
def resume(name: Group, url: Url = None, config: ClientFile = None) -> None:
    """Resume a paused group."""

    async def use(mq: AsyncClient) -> None:
        await mq.admin.resume_group(name)

    with_client(url, config, use)
    sys.stdout.write(f"resumed group {name}\n")


@app.command("delete")
def delete(name: Group, yes: Yes = False, url: Url = None, config: ClientFile = None) -> None:
    """Delete a group with its offsets and pending retries.

    Without --yes, only shows what would be deleted and exits with 1.
    """

    async def use(mq: AsyncClient) -> None:
        fact = await accept_partial(mq.admin.describe_group(name))
        retries = f"{fact.waiting_tries} pending {'retry' if fact.waiting_tries == 1 else 'retries'}"
        what = f"group {name} with its offsets in {counted(len(fact.queues), 'queue')} and {retries}"
        if yes:
            await mq.admin.delete_group(name)
        sys.stdout.write(f"{'deleted' if yes else 'would delete'} {what}\n")
        if not yes:
            sys.stdout.write("Nothing was changed. Use --yes to apply. This cannot be undone.\n")
            raise typer.Exit(1)

    with_client(url, config, use)


def _show(plan: ResetPlan, output: OutputFormat, *, done: bool, undoing: bool) -> None:
    rows = [
        {
            "broker": one.broker,
            "queue": one.queue_id,
            "from": _offset(one.before),
            "to": _offset(one.after),
            "end": one.next,
        }
        for one in plan.steps
    ]
    if output is OutputFormat.TABLE:
        again = plan.messages
        effect = f"{counted(abs(again), 'message')} will be {'redelivered' if again >= 0 else 'skipped'}"
        verb = ("undid" if undoing else "reset") if done else ("would undo" if undoing else "would reset")
        sys.stdout.write(f"{verb} group {plan.group} in topic {plan.topic}: {effect}\n\n")
        write_rows(rows, ["broker", "queue", "from", "to", "end"], output, none="There are no queues.")
        sys.stdout.write("\n")
        if done:
            sys.stdout.write(
                f"Undo it with: litemq group undo {plan.group} --topic {plan.topic} --reset {plan.reset_id}\n"
            )
        elif plan.members or plan.in_flight:
            sys.stdout.write(
                f"{counted(plan.members, 'connected consumer')}, {counted(plan.in_flight, 'leased message')}: "
                "stop the consumers, or use --force.\n"
            )
    else:
        facts = {
            "group": plan.group,
            "topic": plan.topic,
            "reset": plan.reset_id,
            "done": done,
            "messages": plan.messages,
        }
        write_value(facts | {"members": plan.members, "in_flight": plan.in_flight, "queues": rows}, output)
    if not done:
        if output is OutputFormat.TABLE:
            sys.stdout.write(_NOT_DONE)
        raise typer.Exit(1)


def _state(paused: bool) -> str:
    return "paused" if paused else "active"


def _offset(offset: int) -> int | str:
    return offset if offset >= 0 else "-"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds") if ms else "-"


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(
            f"--to {text}: choose earliest, latest, or a time such as 2030-01-31T12:00:00+08:00"
        ) from None
