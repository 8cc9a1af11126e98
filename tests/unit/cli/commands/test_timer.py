"""``litemq timer`` and delays of ``litemq message send``, against a broker in memory."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from typer.testing import CliRunner, Result

from litemq import Client
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE
from litemq.testing import MemoryBroker


class Desk:
    """A broker with three delayed messages in "orders"."""

    def __init__(self, url: str) -> None:
        self.url = url
        with Client(url) as mq:
            self.ids = [
                mq.send(
                    "orders",
                    f"body {days}",
                    delay=timedelta(days=days),
                    keys=f"k-{days}",
                    batch_id="b" if days > 1 else "",
                ).message_id
                for days in (1, 2, 3)
            ]

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--url", self.url])

    def json(self, *arguments: str, exit_code: int = 0) -> object:
        result = self.run(*arguments, "--format", "json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    def ids_of(self, *arguments: str) -> list[str]:
        rows = self.json("timer", "list", "orders", *arguments)
        assert isinstance(rows, list)
        return [row["message_id"] for row in rows]


@pytest.fixture
def desk() -> Iterator[Desk]:
    with MemoryBroker() as broker:
        yield Desk(broker.url)


def test_they_are_listed(desk: Desk) -> None:
    assert desk.ids_of() == desk.ids
    assert desk.ids_of("--key", "k-2") == desk.ids[1:2]
    assert desk.ids_of("--batch-id", "b", "-n", "1") == desk.ids[1:2]
    assert desk.ids_of("--until", "2020-01-01") == []
    assert desk.ids_of("--since", "2020-01-01T00:00:00Z") == desk.ids
    table = desk.run("timer", "list", "orders")
    assert [line.split()[1] for line in table.stdout.splitlines()[1:]] == desk.ids
    assert desk.run("timer", "list", "orders", "--key", "none").stdout == "orders has no matching delayed messages.\n"


def test_one_is_shown(desk: Desk) -> None:
    shown = desk.run("timer", "show", "orders", desk.ids[1])
    assert {"state        scheduled", "batch_id     b", "body         body 2"} <= set(shown.stdout.splitlines())
    value = desk.json("timer", "show", "orders", desk.ids[1])
    assert isinstance(value, dict)
    assert (value["keys"], value["message"]["body"]) == ("k-2", "body 2")
    assert desk.run("timer", "show", "orders", "none").exit_code == EXIT_NOT_FOUND


def test_cancelled_only_after_yes(desk: Desk) -> None:
    plan = desk.run("timer", "cancel", "orders", desk.ids[0], "none")
    assert (plan.exit_code, "Nothing was changed" in plan.stdout, "scheduled" in plan.stdout) == (
        EXIT_FAILED,
        True,
        True,
    )
    assert desk.ids_of() == desk.ids
    assert desk.json("timer", "cancel", "orders", desk.ids[0], "--yes") == [
        {"message_id": desk.ids[0], "outcome": "cancelled"}
    ]
    assert desk.ids_of() == desk.ids[1:]
    assert desk.json("timer", "cancel", "orders", desk.ids[0], "--yes") == [
        {"message_id": desk.ids[0], "outcome": "cancelled-before"}
    ]
    assert desk.run("timer", "cancel", "orders", "none", "--yes").exit_code == EXIT_FAILED
    why = desk.json("message", "why", desk.ids[0], "--group", "billing")
    assert isinstance(why, dict)
    assert why["verdict"] == "cancelled"


def test_a_batch_is_cancelled_only_after_yes(desk: Desk) -> None:
    plan = desk.run("timer", "cancel-batch", "orders", "b")
    assert (plan.exit_code, plan.stdout.splitlines()[0]) == (
        EXIT_FAILED,
        "scheduled in orders: 2 messages of batch b",
    )
    assert desk.json("timer", "cancel-batch", "orders", "b", exit_code=EXIT_FAILED) == {
        "topic": "orders",
        "batch_id": "b",
        "waiting": 2,
        "cancelled": False,
    }
    assert desk.ids_of() == desk.ids
    assert desk.run("timer", "cancel-batch", "orders", "b", "--yes").exit_code == 0
    assert desk.ids_of() == desk.ids[:1]
    assert isinstance(desk.json("timer", "cancel-batch", "orders", "b", "--yes"), dict)


def test_moved_only_after_yes(desk: Desk) -> None:
    move = ("timer", "reschedule", "orders", desk.ids[2])
    plan = desk.run(*move, "--delay", "3600")
    assert (plan.exit_code, "deliver it in 1h" in plan.stdout) == (EXIT_FAILED, True)
    assert desk.ids_of() == desk.ids
    assert desk.run(*move, "--delay", "3600", "--yes").exit_code == 0
    assert desk.ids_of() == [desk.ids[2], *desk.ids[:2]]
    assert "sent_for" in desk.run("timer", "show", "orders", desk.ids[2]).stdout
    due = desk.json(*move, "--deliver-at", "2020-01-01T00:00:00Z", "--yes")
    assert isinstance(due, dict)
    assert desk.run(*move).exit_code == EXIT_USAGE
    assert desk.run(*move, "--delay", "1", "--deliver-at", "2020-01-01").exit_code == EXIT_USAGE
    gone = desk.run("timer", "reschedule", "orders", "none", "--delay", "1")
    assert gone.exit_code == EXIT_NOT_FOUND


def test_sent_with_a_delay(desk: Desk) -> None:
    sent = desk.run("message", "send", "orders", "x", "--delay-level", "18", "--batch-id", "c")
    assert "to be delivered to queue" in sent.stdout
    assert len(desk.ids_of("--batch-id", "c")) == 1
    for more in (
        ("--delay", "60"),
        ("--delay", "1m 30s"),
        ("--delay", "0.5h"),
        ("--deliver-at", "2020-01-01T00:00:00Z"),
    ):
        assert desk.run("message", "send", "orders", "x", *more).exit_code == 0
    assert len(desk.ids_of()) == 7
    assert desk.run("message", "send", "orders", "x", "--delay-level", "19").exit_code == EXIT_USAGE
    for wrong in ("2y", "-1", "", "1e3", "nan", "tomorrow"):
        refused = desk.run("message", "send", "orders", "x", "--delay", wrong)
        assert (refused.exit_code, "such as 90, or units" in refused.output.replace("\n", " ")) == (EXIT_USAGE, True), (
            refused.output
        )
    both = desk.run("message", "send", "orders", "x", "--delay", "1", "--delay-level", "1")
    assert both.exit_code not in (0, EXIT_NOT_FOUND)
