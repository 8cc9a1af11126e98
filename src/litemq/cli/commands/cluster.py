"""``litemq cluster``: the state of a whole cluster, and the masters of replicated groups."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from litemq.cli.connecting import ClientFile, Url, client_settings, with_client
from litemq.cli.nouns import new_noun
from litemq.cli.options import Yes
from litemq.cli.partial import accept_partial, note_missing, note_problems
from litemq.cli.rendering.brokers import BROKER_COLUMNS, broker_row, no_brokers
from litemq.cli.rendering.output import Format, OutputFormat, counted, plain, write_rows, write_value
from litemq.cli.rendering.replica_losses import NOT_DONE, write_losses, write_recovery
from litemq.cli.rendering.replicas import REPLICA_COLUMNS, cut_off_notes, group_value, replica_rows
from litemq.errors import InvalidArgumentError, LiteMQError

if TYPE_CHECKING:
    from litemq import AsyncClient
    from litemq.client.engine.replicas import GroupRecovery, MasterSwitch

__all__ = ["app"]

app = new_noun("cluster")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group: the broker_name of its replicas.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Go on although replicas are missing or their logs are empty: acknowledged messages that only they had "
        "are lost.",
        allow_from_autoenv=False,
    ),
]

_NAMESERVER_MS: Final = 1_000  # how long to wait for one NameServer


@app.callback()
def cluster() -> None:
    """Show the state of a cluster, and choose the masters of replicated groups."""


@app.command("status")
def status(url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Show NameServers, brokers, replicas, and totals of topics, groups, lag and dead letters.

    A replica is `in sync`, `catching up`, or `silent`: it does not report. If a group has no
    master, start a replica that is `silent, in sync`: it has all confirmed messages. For a
    replica, lag is the part of the master's log in bytes that it lacks, and bytes_cut the part of
    its own that its masters lacked. Exits with 8 if a NameServer or a broker does not answer, a
    replicated group has no master, a replica is missing, not in sync, cannot write or follow, or
    has other settings than the rest, or a NameServer does not reach its cluster store.
    """
    address, settings = client_settings(url, config)

    async def use(mq: AsyncClient) -> dict[str, Any]:
        # The totals need a broker; the list of brokers tells why there is none.
        nameservers, brokers, replicated = await asyncio.gather(
            _nameservers(address, settings), mq.admin.brokers(), mq.admin.replica_groups()
        )
        facts: dict[str, Any] = {"nameservers": nameservers, "brokers": [broker_row(each) for each in brokers]}
        facts["replica_groups"] = [group_value(each) for each in replicated]
        for group in replicated:
            note_problems(f"group {group.name}", group.problems, explains="" if group.master else group.name)
        note_missing({each.name: each.problem for each in brokers if each.problem})
        if any(not each.problem for each in brokers):
            topics = await accept_partial(mq.admin.topics())
            groups = await accept_partial(mq.admin.groups())
            facts["topics"], facts["queues"] = len(topics), sum(topics.values())
            facts["groups"], facts["lag"] = len(groups), sum(each.lag for each in groups)
            facts["dead_letters"] = sum((await accept_partial(mq.admin.dead_letter_topics())).values())
        return facts

    facts = with_client(url, config, use)
    if output is not OutputFormat.TABLE:
        write_value(facts, output)
        return
    write_rows(facts["nameservers"], ["nameserver", "state", "brokers"], output, none="memory:// has no NameServers.")
    sys.stdout.write("\n")
    write_rows(facts["brokers"], BROKER_COLUMNS, output, none=no_brokers(address))
    if facts["replica_groups"]:
        sys.stdout.write("\n")
        write_rows(replica_rows(facts["replica_groups"]), REPLICA_COLUMNS, output, none="")
        sys.stdout.write(cut_off_notes(facts["replica_groups"]))
    if "topics" in facts:
        sys.stdout.write(
            f"\n{counted(facts['topics'], 'topic')} with {counted(facts['queues'], 'queue')}, "
            f"{counted(facts['groups'], 'group')} with a lag of {facts['lag']}, "
            f"{counted(facts['dead_letters'], 'dead letter')}\n"
        )


@app.command("switch")
def switch(
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="REPLICA", help="Next master; default: the one that has most.", show_default=False
        ),
    ] = "",
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Make another replica of a group its master.

    The master accepts no requests until the next one has everything, and hands over. If that takes
    longer than 1 s, it goes on as the master, and the command says why. Clients continue.
    """

    async def use(mq: AsyncClient) -> MasterSwitch:
        return await mq.admin.switch_master(group, to)

    done = with_client(url, config, use)
    if output is not OutputFormat.TABLE:
        write_value({**done._asdict(), "pause_ms": round(done.pause_ms, 1)}, output)
        return
    sys.stdout.write(
        f"{done.former} handed group {done.group} over to {done.master}, the master of epoch {done.epoch}; "
        f"requests paused for {done.pause_ms:.0f} ms\n"
    )


@app.command("recover")
def recover(
    group: Group,
    yes: Yes = False,
    force: Force = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Make new facts for a group after the NameServers have lost them: its epoch and in-sync set.

    Without --yes, only shows the plan and exits with 1. All replicas of the group should run: then
    the one with the latest record has every acknowledged message.
    """

    async def use(mq: AsyncClient) -> GroupRecovery:
        return await (mq.admin.recover_group(group, force=force) if yes else mq.admin.plan_recovery(group))

    write_recovery(with_client(url, config, use), output, forced=force)
    if not yes:
        raise typer.Exit(1)


@app.command("elect")
def elect(
    group: Group,
    replica: Annotated[str, typer.Option("--replica", metavar="REPLICA", help="The next master.", show_default=False)],
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Accept that acknowledged messages are lost.", allow_from_autoenv=False)
    ] = False,
    yes: Yes = False,
    url: Url = None,
    config: ClientFile = None,
) -> None:
    """Make a replica the master, although it may lack acknowledged messages.

    For a group without a master, whose in-sync replicas cannot be started again. Without --yes,
    only shows what would be lost and exits with 1.
    """
    if not unclean:
        raise typer.BadParameter("groups elect their masters themselves; to lose messages, add --unclean")

    async def use(mq: AsyncClient) -> None:
        known = {each.name: each for each in await mq.admin.replica_groups()}
        if group not in known:
            raise InvalidArgumentError(f"there is no replicated group {group!r}: see `litemq cluster status`")
        before = known[group]
        write_losses(before, replica)
        if yes:
            elected = await mq.admin.elect_unclean(before, replica)
            sys.stdout.write(f"\n{replica} is the master of epoch {elected.epoch}\n")

    with_client(url, config, use)
    if not yes:
        sys.stdout.write(NOT_DONE)
        raise typer.Exit(1)


async def _nameservers(url: str, settings: dict[str, Any]) -> list[dict[str, object]]:
    """Ask each NameServer for the brokers that it knows."""
    if not url.startswith("litemq://"):
        return []
    from litemq.client.addresses import parse_addresses

    return list(await asyncio.gather(*(_nameserver(f"{host}:{port}", settings) for host, port in parse_addresses(url))))


async def _nameserver(address: str, settings: dict[str, Any]) -> dict[str, object]:
    from litemq import AsyncClient

    limits = {"connect_timeout_ms": _NAMESERVER_MS, "request_timeout_ms": _NAMESERVER_MS}
    try:
        async with AsyncClient(f"litemq://{address}", **{**settings, **limits}) as mq:
            brokers, groups = await asyncio.gather(mq.admin.brokers(), mq.admin.replica_groups())
    except LiteMQError as error:
        note_missing({address: plain(str(error), 200)}, "NameServer")
        return {"nameserver": address, "state": "not answering", "brokers": None}
    note_problems(f"NameServer {address}", sorted({each.obstacle for each in groups if each.master and each.obstacle}))
    return {"nameserver": address, "state": "up", "brokers": len(brokers)}
