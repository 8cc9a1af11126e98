"""``litemq dlq`` and ``litemq message why``, against a broker in memory."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from litemq import Client
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE, exit_code
from litemq.errors import GroupNotFoundError
from litemq.testing import MemoryBroker


class Desk:
    """A broker with five dead letters in "orders", of two errors."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ids: list[str] = []

    def fill(self) -> None:
        with Client(self.url) as mq:
            for number in range(5):
                self.ids.append(mq.send("orders", {"id": number}, keys=f"o-{number}").message_id)
            left = 5
            while left:
                for message in mq.receive("orders", group_id="billing", wait=10, lease=60):
                    number = message.value["id"]
                    message.reject(reason=f"ValueError: order {number}" if number < 3 else "KeyError: 'price'")
                    left -= 1

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--url", self.url])

    def json(self, *arguments: str) -> object:
        result = self.run(*arguments, "--format", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with MemoryBroker() as broker:
        desk = Desk(broker.url)
        desk.fill()
        yield desk


def test_they_are_listed(desk: Desk) -> None:
    assert desk.json("dlq", "list") == [{"topic": "orders", "dead_letters": 5}]
    rows = desk.json("dlq", "list", "orders")
    assert isinstance(rows, list)
    assert {row["message_id"] for row in rows} == set(desk.ids)
    assert {(row["reason"], row["group"], row["tries"]) for row in rows} == {("consume-error", "billing", 1)}
    assert desk.json("dlq", "list", "billing", "--id", desk.ids[0], "--since", "2020-01-01T00:00:00Z") == [
        row for row in rows if row["message_id"] == desk.ids[0]
    ]
    assert desk.json("dlq", "list", "orders", "--reason", "max-retry") == []
    assert desk.json("dlq", "list", "orders", "--until", "2020-01-01") == []
    assert "has no matching dead letters" in desk.run("dlq", "list", "orders", "--group", "audit").stdout
    assert desk.run("dlq", "list", "orders", "--since", "soon").exit_code == EXIT_USAGE


def test_one_is_shown_whole(desk: Desk) -> None:
    shown = desk.json("dlq", "show", "orders", desk.ids[4])
    assert isinstance(shown, dict)
    assert (shown["error"], shown["message"]["body"], shown["message"]["keys"]) == (
        "KeyError: 'price'",
        '{"id":4}',
        ["o-4"],
    )
    assert "KeyError: 'price'" in desk.run("dlq", "show", "orders", desk.ids[4]).stdout
    assert desk.run("dlq", "show", "orders", desk.ids[4], "--raw").stdout == '{"id":4}'
    assert desk.run("dlq", "show", "orders", "none").exit_code == EXIT_NOT_FOUND


def test_which_errors_they_share(desk: Desk) -> None:
    assert desk.run("dlq", "groups", "orders").stdout.startswith("3 of 5 share this error: ValueError: order ")
    groups = desk.json("dlq", "groups", "orders")
    assert isinstance(groups, list)
    assert [(group["letters"], group["of"]) for group in groups] == [(3, 5), (2, 5)]
    assert len(desk.json("dlq", "list", "orders", "--fingerprint", groups[1]["fingerprint"])) == 2  # type: ignore[arg-type]


def test_they_are_sent_on_after_a_look_at_the_plan(desk: Desk) -> None:
    plan = desk.run("dlq", "redrive", "orders", "--id", desk.ids[0])
    assert plan.exit_code == EXIT_FAILED
    assert plan.stdout == "would send back 1 of 1 dead letter\nNothing was changed. Use --yes to apply.\n"
    assert desk.run("dlq", "redrive", "orders", "--id", desk.ids[0], "--yes").stdout == "sent back 1 of 1 dead letter\n"
    done = desk.json("dlq", "redrive", "orders", "--rate", "0", "--yes")
    assert isinstance(done, dict)
    assert (done["state"], done["done"], done["left"]) == ("done", 4, 0)
    assert "There are no dead letters." in desk.run("dlq", "list").stdout


def test_they_are_dropped_after_a_look_at_the_plan(desk: Desk) -> None:
    plan = desk.run("dlq", "purge", "orders")
    assert plan.exit_code == EXIT_FAILED
    assert (
        plan.stdout
        == "would purge 5 of 5 dead letters\nNothing was changed. Use --yes to apply. This cannot be undone.\n"
    )
    assert desk.run("dlq", "purge", "orders", "--yes").stdout == "purged 5 of 5 dead letters\n"
    assert desk.json("dlq", "list") == []


def test_they_can_be_tailed(desk: Desk) -> None:
    lines = desk.run("message", "tail", "%DLQ%orders", "--no-follow").stdout.splitlines()
    assert len(lines) == 5
    assert all("consume-error for billing" in line for line in lines)


def test_why(desk: Desk) -> None:
    result = desk.run("message", "why", desk.ids[0], "--group", "billing")
    assert result.exit_code == 0
    assert result.stdout.startswith("not consumed because it is a dead letter since ")
    assert f"litemq dlq redrive orders --id {desk.ids[0]}" in result.stdout
    answer = desk.json("message", "why", desk.ids[0], "--group", "shipping", "--topic", "orders")
    assert isinstance(answer, dict)
    assert (answer["verdict"], answer["topic"]) == ("before-start", "orders")
    assert desk.run("message", "why", "none", "--group", "billing").exit_code == EXIT_NOT_FOUND


@pytest.mark.parametrize("command", [["list"], ["groups"], ["redrive", "--yes"], ["purge", "--yes"]])
def test_an_unknown_name_is_not_found(desk: Desk, command: list[str]) -> None:
    error = desk.run("dlq", *command, "bilings").exception
    assert isinstance(error, GroupNotFoundError)
    assert exit_code(type(error)) == EXIT_NOT_FOUND
    assert "group 'bilings' does not exist, and no topic has this name" in str(error)
    assert str(error).endswith("; did you mean 'billing'?")


def test_a_deleted_group_has_left_its_dead_letters(desk: Desk) -> None:
    with Client(desk.url) as mq:
        mq.admin.delete_group("billing")
    rows = desk.json("dlq", "list", "billing")
    assert isinstance(rows, list)
    assert len(rows) == 5
