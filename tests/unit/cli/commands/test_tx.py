"""``litemq tx``, against a broker in memory."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from litemq import Client, TransactionReceipt
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND
from litemq.testing import MemoryBroker


class Desk:
    """A broker with two pending transactions."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.waiting: list[TransactionReceipt] = []

    def fill(self) -> None:
        with Client(self.url) as mq:
            for group in ("shop", "bank"):
                self.waiting.append(mq.send_transaction("orders", {"id": group}, group_id=group))

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["tx", *arguments, "--url", self.url])

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
    shop, bank = (receipt.transaction_id for receipt in desk.waiting)
    rows = desk.json("list")
    assert isinstance(rows, list)
    assert [(row["transaction"], row["state"], row["topics"], row["messages"]) for row in rows] == [
        (bank, "undecided", "orders", 1),
        (shop, "undecided", "orders", 1),
    ]
    assert desk.json("list", "--group", "shop") == [row for row in rows if row["group"] == "shop"]
    assert desk.json("list", "--topic", "others") == []
    assert desk.json("list", "--state", "dead") == []
    assert len(desk.run("list", "-n", "1").stdout.splitlines()) == 2
    assert desk.run("list", "--older-than", "3600").stdout == "There are no pending transactions.\n"


def test_one_is_shown(desk: Desk) -> None:
    (shop, _) = (receipt.transaction_id for receipt in desk.waiting)
    text = desk.run("show", shop).stdout
    assert "state          undecided" in text
    assert '{"id":"shop"}' in text.replace(" ", "")
    whole = desk.json("show", shop)
    assert isinstance(whole, dict)
    assert (whole["check_history"], len(whole["contents"])) == ([], 1)
    unknown = desk.run("show", shop.replace("tx:shop:", "tx:shop:0"))
    assert unknown.exit_code == EXIT_NOT_FOUND
    assert "does not know" in unknown.stderr


def test_what_ends_one_shows_the_plan_first(desk: Desk) -> None:
    shop, bank = (receipt.transaction_id for receipt in desk.waiting)
    for verb, name in (("commit", shop), ("rollback", bank)):
        plan = desk.run(verb, name)
        assert plan.exit_code == EXIT_FAILED
        assert "1 message for orders" in plan.stdout
        assert "Use --yes" in plan.stdout
    assert len(desk.json("list")) == 2  # type: ignore[arg-type]
    assert desk.run("commit", shop, "--yes").stdout == f"committed {shop}\n"
    assert desk.run("rollback", bank, "--yes").stdout == f"rolled back {bank}\n"
    assert desk.json("list") == []
    again = desk.run("rollback", shop)
    assert (again.exit_code, again.stdout) == (EXIT_FAILED, f"{shop} is already committed\n")
    refused = desk.run("rollback", shop, "--yes")
    assert refused.exit_code != 0
    assert desk.run("commit", shop.replace("tx:shop:", "tx:shop:0")).exit_code == EXIT_NOT_FOUND
    with Client(desk.url) as mq:
        assert [message.value for message in mq.reader("orders", follow=False)] == [{"id": "shop"}]
