"""``litemq topic``: settings and archives, against a broker in memory."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from litemq import Client
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_USAGE
from litemq.errors import IncompatibleSchemaError, InvalidArgumentError, TopicNotFoundError
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
        "topic orders: 1 queue, 0 messages, archived: drop-with-record, archive wait 90s\n"
    )
    altered = desk.run("alter", "orders", "--archived", "block", "--archive-wait", "0")
    assert altered.output.startswith("topic orders: 1 queue, 0 messages, archived: block\n")
    shown = json.loads(desk.run("describe", "orders", "--format", "json").output)["settings"]
    assert (shown["archived"], shown["archive_wait_ms"]) == ("block", 0)
    assert desk.run("alter", "orders", "--archived", "drop").exit_code == EXIT_USAGE


def test_durations_have_units(desk: Desk) -> None:
    created = desk.run("create", "clicks", "--queues", "1", "--retention", "6h", "--ttl", "1h30m")
    assert created.output.startswith("topic clicks: 1 queue, 0 messages, ttl 90m, retention 6h\n")
    altered = desk.run("alter", "clicks", "--retention", "90", "--ttl", "0")
    assert altered.output.startswith("topic clicks: 1 queue, 0 messages, retention 90s\n")
    refused = desk.run("alter", "clicks", "--retention", "soon")
    assert refused.exit_code == EXIT_USAGE
    assert "invalid duration 'soon'" in refused.output


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
    assert moved["reported_at"].startswith("20")
    assert moved["queues"] == [{"broker": queue.broker, "queue": 0, "from": 0, "to": 3, "behind": 2}]


def test_schemas(desk: Desk, tmp_path: Path) -> None:
    desk.run("create", "orders", "--queues", "1")
    none = desk.run("schema", "orders")
    assert (none.exit_code, none.stdout) == (1, "")
    assert "topic orders has no schema" in none.stderr
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text('{"title": "Order", "type": "object"}')
    new.write_text('{"title": "Order", "type": "object", "required": ["id"]}')
    shown = desk.run("alter", "orders", "--schema", str(old))
    assert shown.output.startswith("topic orders: 1 queue, 0 messages, schema Order (version 1)\n")
    assert json.loads(desk.run("schema", "orders").stdout) == {"title": "Order", "type": "object"}
    refused = desk.run("alter", "orders", "--schema", str(new))
    assert isinstance(refused.exception, IncompatibleSchemaError)
    assert "field 'id' is required" in str(refused.exception)
    forced = desk.run("alter", "orders", "--schema", str(new), "--compatibility", "none")
    assert "schema Order (version 1), compatibility none" in forced.output
    described = json.loads(desk.run("describe", "orders", "--format", "json").stdout)["settings"]
    assert described["schemas"][-1]["required"] == ["id"]
    new.write_text("[")
    assert isinstance(desk.run("alter", "orders", "--schema", str(new)).exception, InvalidArgumentError)


def test_to_delete_an_unknown_topic_does_not_advise_to_create_it(desk: Desk) -> None:
    desk.run("create", "orders")
    error = desk.run("delete", "ordesr", "--yes").exception
    assert str(error) == "topic 'ordesr' does not exist: `litemq topic list` shows all topics; did you mean 'orders'?"
    with Client(desk.url) as mq, pytest.raises(TopicNotFoundError) as caught:
        mq.admin.delete_topic("ordesr")
    assert "create" not in str(caught.value)


def test_an_unknown_topic_suggests_the_closest_one(desk: Desk) -> None:
    desk.run("create", "orders")
    assert str(desk.run("describe", "ordesr").exception).endswith("; did you mean 'orders'?")
    assert "did you mean" not in str(desk.run("describe", "quite-different").exception)


def test_the_environment_confirms_no_change(desk: Desk) -> None:
    desk.run("create", "orders")
    result = CliRunner().invoke(
        app, ["topic", "delete", "orders", "--url", desk.url], env={"LITEMQ_TOPIC_DELETE_YES": "1", "LITEMQ_YES": "1"}
    )
    assert result.exit_code == EXIT_FAILED
    assert "Nothing was changed" in result.output
