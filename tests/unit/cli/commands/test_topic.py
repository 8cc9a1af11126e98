"""``litemq topic``: settings and archives, against a broker in memory."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from litemq import Client
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_USAGE
from litemq.testing import MemoryBroker


class Desk:
    """A broker in memory, and the command line."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["topic", *arguments, "--url", self.url])


@pytest.fixture
def desk() -> Iterator[Desk]:
    with MemoryBroker() as broker:
        yield Desk(broker.url)


def test_whether_retention_waits_is_chosen_and_shown(desk: Desk) -> None:
    created = desk.run("create", "orders", "--queues", "1", "--archived", "drop-with-record", "--archive-wait", "90")
    assert created.output.startswith(
        "topic orders: 1 queues, 0 messages, archived: drop-with-record, archive wait 90 s\n"
    )
    altered = desk.run("alter", "orders", "--archived", "block", "--archive-wait", "0")
    assert altered.output.startswith("topic orders: 1 queues, 0 messages, archived: block\n")
    shown = json.loads(desk.run("describe", "orders", "--format", "json").output)["settings"]
    assert (shown["archived"], shown["archive_wait_ms"]) == ("block", 0)
    assert desk.run("alter", "orders", "--archived", "drop").exit_code == EXIT_USAGE


def test_how_far_an_archive_is_and_where(desk: Desk) -> None:
    desk.run("create", "orders", "--queues", "1")
    assert desk.run("archive", "orders").output == "topic orders: not archived yet\n"
    with Client(desk.url) as mq:
        for _ in range(5):
            mq.send("orders", b"x")
        (queue,) = mq.admin.describe_topic("orders").queues
        mq.admin.archived_through("orders", "/lake", {(queue.broker, 0): 3})
    shown = desk.run("archive", "orders")
    assert shown.output.startswith("topic orders: archived in /lake, last report at 20")
    moved = json.loads(desk.run("archive", "orders", "--moved-to", "/elsewhere", "--format", "json").output)
    assert moved["location"] == "/elsewhere"
    assert moved["queues"] == [{"broker": queue.broker, "queue": 0, "from": 0, "to": 3, "behind": 2}]
