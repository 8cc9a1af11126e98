"""``litemq group``: unknown groups and resets, against a broker in memory."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from litemq import Client
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_NOT_FOUND, EXIT_USAGE, exit_code
from litemq.errors import GroupNotFoundError, LiteMQError, ResetNotFoundError
from litemq.testing import MemoryBroker


class Desk:
    """A broker with the group "billing" in topic "orders", and the command line."""

    def __init__(self, url: str) -> None:
        self.url = url
        with Client(url) as mq:
            mq.send("orders", b"x")
            for message in mq.receive("orders", group_id="billing", wait=10):
                message.ack()

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--url", self.url])

    def error(self, *arguments: str) -> LiteMQError:
        error = self.run(*arguments).exception
        assert isinstance(error, LiteMQError)
        return error


@pytest.fixture
def desk() -> Iterator[Desk]:
    with MemoryBroker() as broker:
        yield Desk(broker.url)


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", "biling"],
        ["reset", "biling", "--topic", "orders", "--to", "earliest"],
        ["reset", "biling", "--topic", "orders", "--to", "earliest", "--yes"],
        ["undo", "biling", "--topic", "orders"],
        ["undo", "biling", "--topic", "orders", "--yes"],
        ["pause", "biling"],
        ["resume", "biling"],
        ["delete", "biling", "--yes"],
    ],
)
def test_an_unknown_group_is_not_found(desk: Desk, arguments: list[str]) -> None:
    error = desk.error("group", *arguments)
    assert type(error) is GroupNotFoundError
    assert exit_code(type(error)) == EXIT_NOT_FOUND
    assert str(error) == (
        "group 'biling' does not exist: `litemq group list` shows all groups; did you mean 'billing'?"
    )
    with Client(desk.url) as mq:
        assert [group.group for group in mq.admin.groups()] == ["billing"]  # none was created


def test_an_unknown_reset_is_not_found(desk: Desk) -> None:
    error = desk.error("group", "undo", "billing", "--topic", "orders", "--reset", "r-9")
    assert type(error) is ResetNotFoundError
    assert exit_code(type(error)) == EXIT_NOT_FOUND


def test_a_reset_has_one_target(desk: Desk) -> None:
    for arguments in ([], ["--to", "earliest", "--shift", "1"]):
        result = desk.run("group", "reset", "billing", "--topic", "orders", *arguments)
        assert result.exit_code == EXIT_USAGE
        assert "give exactly one of --to POSITION, --offset and --shift" in result.output
    assert desk.run("group", "reset", "billing", "--topic", "orders", "--to", "earliest", "--yes").exit_code == 0
