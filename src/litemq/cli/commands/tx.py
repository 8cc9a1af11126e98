"""``litemq tx``: list, show, commit and roll back pending transactions."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from litemq.cli.connecting import ClientFile, Url, with_client
from litemq.cli.nouns import new_noun
from litemq.cli.options import Yes
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND
from litemq.cli.rendering.messages import as_value, format_time
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_rows, write_value

if TYPE_CHECKING:
    from litemq import AsyncClient, Message, TransactionState
    from litemq.client.engine.transactions import TransactionInfo

__all__ = ["app"]

app = new_noun("tx")


class State(StrEnum):
    """Values of ``--state``."""

    UNDECIDED = "undecided"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled-back"
    DEAD = "dead"


Id = Annotated[str, typer.Argument(metavar="ID", help="Transaction id, from `litemq tx list`.", show_default=False)]


@app.callback()
def tx() -> None:
    """List, commit and roll back pending transactions."""


@app.command("list")
def list_(
    group: Annotated[str, typer.Option("--group", help="Only transactions of this producer group.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="Only transactions with messages for this topic.")] = "",
    state: Annotated[
        State | None,
        typer.Option(
            "--state",
            help="Only transactions in this state; ended transactions are listed for a limited time.",
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        float, typer.Option("--older-than", metavar="SECONDS", min=0, help="Minimum age in seconds.")
    ] = 0,
    sinks: Annotated[bool, typer.Option("--sinks", help="Include transactions of Spark sinks.")] = False,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Maximum number to list.")] = 100,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List pending transactions, or those in --state."""

    async def use(mq: AsyncClient) -> list[TransactionInfo]:
        chosen = None if state is None else state.value
        return await mq.transactions.select(
            group_id=group, topic=topic, state=chosen, older_than=older_than, include_sinks=sinks, most=limit
        )

    rows = [_row(fact) for fact in with_client(url, config, use)]
    columns = ["transaction", "state", "begun_at", "topics", "messages", "checks", "next_check_at"]
    write_rows(
        rows,
        columns,
        output,
        none="There are no pending transactions." if state is None else f"There are no {state.value} transactions.",
    )


@app.command("show")
def show(transaction_id: Id, url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """Show a transaction, its checks and its messages.

    Exits with 3 if it is unknown to its broker.
    """

    async def use(mq: AsyncClient) -> tuple[TransactionInfo, list[Message]]:
        return await mq.transactions.get(transaction_id), await mq.transactions.messages(transaction_id)

    fact, messages = with_client(url, config, use)
    _check_known(fact)
    if output is not OutputFormat.TABLE:
        write_value(
            {
                **_row(fact),
                "check_history": _check_history(fact),
                "contents": [as_value(message) for message in messages],
            },
            output,
        )
        return
    for word, value in _row(fact).items():
        if value not in ("", None):
            sys.stdout.write(f"{word:<14} {plain(str(value), 1000)}\n")
    for round_ in _check_history(fact):
        sys.stdout.write(f"{'checked':<14} {round_['at']}: {round_['outcome']}\n")
    for message in messages:
        sys.stdout.write(f"{'message':<14} {message.message_id} for {message.topic}: {plain(message.body, 200)}\n")


@app.command("commit")
def commit(transaction_id: Id, yes: Yes = False, url: Url = None, config: ClientFile = None) -> None:
    """Commit a transaction and deliver its messages.

    Without --yes, only shows what would change and exits with 1.
    """
    _end(transaction_id, url, config, is_commit=True, yes=yes)


@app.command("rollback")
def rollback(transaction_id: Id, yes: Yes = False, url: Url = None, config: ClientFile = None) -> None:
    """Roll back a transaction and discard its messages.

    Without --yes, only shows what would change and exits with 1.
    """
    _end(transaction_id, url, config, is_commit=False, yes=yes)


def _end(transaction_id: str, url: str | None, config: ClientFile, *, is_commit: bool, yes: bool) -> None:
    async def use(mq: AsyncClient) -> TransactionInfo:
        fact = await mq.transactions.get(transaction_id)
        if yes:
            await (mq.transactions.commit(transaction_id) if is_commit else mq.transactions.rollback(transaction_id))
        return fact

    fact = with_client(url, config, use)
    _check_known(fact)
    what = f"{fact.messages} message{'' if fact.messages == 1 else 's'} for {', '.join(fact.topics) or 'its topic'}"
    if yes:
        sys.stdout.write(f"{'committed' if is_commit else 'rolled back'} {transaction_id}\n")
        return
    if _word(fact.state) == State.UNDECIDED.value:
        sys.stdout.write(f"would {'commit' if is_commit else 'roll back'} {transaction_id}: {what}\n")
        sys.stdout.write("Nothing was changed. Use --yes to apply. This cannot be undone.\n")
    else:
        sys.stdout.write(f"{transaction_id} is already {_word(fact.state)}\n")
    raise typer.Exit(EXIT_FAILED)


def _check_known(fact: TransactionInfo) -> None:
    if _word(fact.state) == "not-known":
        typer.echo(
            f"broker {fact.broker} does not know transaction {fact.transaction_id}; it may have ended long ago",
            err=True,
        )
        raise typer.Exit(EXIT_NOT_FOUND)


def _row(fact: TransactionInfo) -> dict[str, object]:
    is_open = fact.stored_at > 0  # of an ended transaction, the broker keeps only the outcome
    return {
        "transaction": fact.transaction_id,
        "broker": fact.broker,
        "group": fact.group_id,
        "state": _word(fact.state),
        "begun_at": format_time(fact.stored_at) if fact.stored_at else "",
        "topics": ",".join(fact.topics),
        "messages": fact.messages if is_open else None,
        "bytes": fact.size if is_open else None,
        "checks": fact.checks if is_open else None,
        "next_check_at": format_time(fact.next_check_at) if fact.next_check_at else "",
        "kind": "sink" if fact.is_sink else "producer",
    }


def _check_history(fact: TransactionInfo) -> list[dict[str, str]]:
    outcomes = {True: "answered unknown", False: "no answer"}
    return [
        {
            "at": format_time(each.at),
            "outcome": f"asked {each.asked}: {outcomes[each.unknown]}"
            if each.asked
            else "no producer of the group was connected",
        }
        for each in fact.story
    ]


def _word(state: TransactionState) -> str:
    return state.value.replace(" ", "-")
