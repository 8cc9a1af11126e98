"""``litemq message send``, against a broker in memory."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq import Client
from litemq.cli.main import app
from litemq.testing import MemoryBroker


@pytest.mark.parametrize(
    ("arguments", "body", "value"),
    [
        (['{"id":  1}'], b'{"id":  1}', {"id": 1}),
        (["[1, 2]"], b"[1, 2]", [1, 2]),
        (["42"], b"42", "42"),
        (["grüße"], "grüße".encode(), "grüße"),
        (['{"id": 1}', "--raw"], b'{"id": 1}', b'{"id": 1}'),
        (["42", "--content-type", "application/json"], b"42", 42),
        (['{"id": 1}', "--property", "content-type=text/plain"], b'{"id": 1}', '{"id": 1}'),
        (["\udcff\udcfe"], b"\xff\xfe", b"\xff\xfe"),
    ],
)
def test_a_body_arrives_as_a_python_value(arguments: list[str], body: bytes, value: object) -> None:
    with MemoryBroker() as broker, Client(broker.url) as mq:
        sent = CliRunner().invoke(app, ["message", "send", "orders", *arguments, "--url", broker.url])
        assert sent.exit_code == 0, sent.output
        (message,) = mq.receive("orders", group_id="g", wait=10)
        assert (message.body, message.value) == (body, value)
        message.ack()


def test_files_and_standard_input_are_sent_unmodified(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_bytes(b'{"id": 1}\n')
    with MemoryBroker() as broker, Client(broker.url) as mq:
        for arguments, given in (
            (["--file", str(tmp_path / "order.json")], None),
            (["-"], b'{"id": 1}\n'),
        ):
            sent = CliRunner().invoke(app, ["message", "send", "orders", *arguments, "--url", broker.url], input=given)
            assert sent.exit_code == 0, sent.output
            (message,) = mq.receive("orders", group_id="g", wait=10)
            assert (message.body, message.value) == (b'{"id": 1}\n', {"id": 1})
            message.ack()
