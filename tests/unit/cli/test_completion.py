"""Shell completion: scripts, commands, and the names of topics and groups."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from litemq import Client
from litemq.cli.main import app
from litemq.testing import MemoryBroker
from support.processes import free_port


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with MemoryBroker() as broker:
        with Client(broker.url) as mq:
            for topic in ("orders", "offers", "payments"):
                mq.send(topic, b"x")
            for message in mq.receive("orders", group_id="billing", wait=10):
                message.ack()
        yield broker.url


def _complete(line: str, url: str, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    environment = {
        "_LITEMQ_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "LITEMQ_URL": url,
    }
    result = CliRunner().invoke(app, [], prog_name="litemq", env=environment)
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("litemq top", ["topic"]),
        ("litemq topic de", ["delete", "describe"]),
        ("litemq message tail o", ["offers", "orders"]),
        ("litemq topic describe pa", ["payments"]),
        ("litemq timer list x", []),
        ("litemq group describe b", ["billing"]),
        ("litemq group reset billing --topic or", ["orders"]),
        ("litemq dlq list o", ["offers", "orders"]),
        ("litemq dlq list b", ["billing"]),
        ("litemq message why 1 --group b", ["billing"]),
    ],
)
def test_commands_and_names_are_completed(line: str, expected: list[str], url: str) -> None:
    assert sorted(_complete(line, url)) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_the_names(shell: str, url: str) -> None:
    assert any("orders" in word for word in _complete("litemq message tail or", url, shell))


def test_without_a_cluster_there_is_no_name_and_no_error() -> None:
    begin = time.monotonic()
    assert _complete("litemq message tail o", f"litemq://127.0.0.1:{free_port()}") == []
    assert _complete("litemq message tail o", "nonsense://") == []
    assert time.monotonic() - begin < 60  # it gave up by itself


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    # The shell is named, because the test does not run in one.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'litemq'; from litemq.cli.main import run; run()"]
    done = subprocess.run(
        [*command, "--show-completion", shell], capture_output=True, text=True, check=True, env=environment
    )
    assert "_LITEMQ_COMPLETE" in done.stdout
    assert f"complete_{shell}" in done.stdout
