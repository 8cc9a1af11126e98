"""Every listing command with one of two brokers killed or stopped: output, names and exit code.

The time of each answer is printed; ``just timing`` checks that it is below two seconds.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from litemq import AsyncClient
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_PARTIAL, EXIT_UNREACHABLE, exit_code
from litemq.client.messages.send_options import SendOptions
from litemq.errors import LiteMQError
from litemq.net.event_loop import run
from support.chaos_cluster import cluster
from support.commands import environment_of_commands, litemq
from support.processes import ServerProcess

LISTS: Final = {
    "topic list": ("topic", "list"),
    "topic describe": ("topic", "describe", "orders"),
    "topic archive": ("topic", "archive", "orders"),
    "group list": ("group", "list"),
    "group describe": ("group", "describe", "billing"),
    "dlq list": ("dlq", "list"),
    "dlq list TOPIC": ("dlq", "list", "orders"),
    "dlq groups": ("dlq", "groups", "orders"),
    "job list": ("job", "list"),
    "timer list": ("timer", "list", "orders"),
    "tx list": ("tx", "list"),
    "message get --key": ("message", "get", "orders", "--key", "k"),
    "message get --at": ("message", "get", "orders", "--at", "2026-01-01T00:00:00Z"),
    "message tail": ("message", "tail", "orders", "--no-follow"),
    "broker list": ("broker", "list"),
    "cluster status": ("cluster", "status"),
}


class Commands:
    """A cluster of brokers a and b, and commands that use it."""

    def __init__(self, url: str, brokers: dict[str, ServerProcess], folder: Path) -> None:
        self.url = url
        self.brokers = brokers
        self.folder = folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process. A slow machine does not make its answer incomplete."""
        environment = environment_of_commands({"LITEMQ_URL": self.url})
        done = CliRunner().invoke(app, list(arguments), env=environment)
        code, problem = done.exit_code, ""
        if isinstance(done.exception, LiteMQError):
            code, problem = exit_code(type(done.exception)), str(done.exception)
        return subprocess.CompletedProcess(arguments, code, done.stdout, done.stderr + problem)


async def _fill(url: str) -> None:
    async with AsyncClient(url) as mq:
        await mq.admin.create_topic("orders", queues=4)
        for options in (SendOptions(keys="k"), SendOptions(delay=3600)):
            brokers: set[str] = set()
            while brokers != {"a", "b"}:
                brokers.add((await mq.send("orders", b"x", **options)).broker)
        async with mq.consumer("orders", group_id="billing") as consumer:
            await (await anext(consumer)).reject(reason="broken")
            while not await mq.admin.dead_letter_topics():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await mq.jobs.create("orders", b"tick", job_id="nightly", cron="@daily")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with cluster(tmp_path) as (names, brokers):
        url = f"litemq://{names.address}"
        run(_fill(url))
        yield Commands(url, brokers, tmp_path)


def test_a_killed_broker_is_named_in_every_list(commands: Commands) -> None:
    for name, arguments in LISTS.items():
        done = commands.run(*arguments)
        assert done.returncode == 0, (name, done)
    commands.brokers["b"].kill()
    for name, arguments in LISTS.items():
        done = commands.run(*arguments, "--format", "json")
        assert done.returncode == EXIT_PARTIAL, (name, done)
        assert done.stderr.startswith("incomplete broker b does not answer: "), (name, done)
        json.loads(done.stdout)
    # What the killed broker has is known to the NameServer, or not shown as if it did not exist.
    assert json.loads(commands.run("topic", "list", "--format", "json").stdout) == [{"topic": "orders", "queues": 8}]
    done = commands.run("group", "pause", "billing")
    assert (done.returncode, done.stdout.split(";")[0]) == (EXIT_PARTIAL, "paused group billing")
    for arguments in (
        ("topic", "delete", "orders", "--yes"),
        ("topic", "alter", "orders", "--ttl", "1"),
        ("group", "delete", "billing", "--yes"),
        ("group", "reset", "billing", "--topic", "orders", "--to", "earliest", "--yes"),
        ("job", "show", "unknown"),
        ("group", "describe", "unknown"),
    ):
        done = commands.run(*arguments)
        assert done.returncode == EXIT_UNREACHABLE, (arguments, done)
        assert "broker b does not answer" in done.stderr
    commands.brokers["b"].start()
    commands.brokers["b"].wait_ready()
    done = commands.run("topic", "describe", "orders", "--format", "json")
    assert (done.returncode, len(json.loads(done.stdout)["queues"])) == (0, 8)


def test_no_broker_answers(commands: Commands) -> None:
    for broker in commands.brokers.values():
        broker.kill()
    done = commands.run("group", "list")
    assert done.returncode == EXIT_UNREACHABLE
    assert "broker a does not answer" in done.stderr
    assert "broker b does not answer" in done.stderr
    done = commands.run("cluster", "status")
    assert done.returncode == EXIT_PARTIAL
    assert done.stdout.count("not answering") == 2


@pytest.mark.timing
@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_partial_answer_takes_less_than_two_seconds(commands: Commands, how: str) -> None:
    environment = {"LITEMQ_URL": commands.url, "LITEMQ_CLIENT_CONTACT_TIMEOUT": "1s"}  # the default
    getattr(commands.brokers["b"], how)()
    slowest = 0.0
    for name, arguments in LISTS.items():
        for _ in range(3):
            begin = time.monotonic()
            done = litemq(*arguments, cwd=commands.folder, check=False, environment=environment)
            took = time.monotonic() - begin
            slowest = max(slowest, took)
            print(f"{how}: {name}: {took:.2f} s, exit code {done.returncode}")  # noqa: T201
            assert done.returncode == EXIT_PARTIAL, (name, done)
    if how == "freeze":
        commands.brokers["b"].thaw()
    print(f"{how}: slowest {slowest:.2f} s")  # noqa: T201
    assert slowest < 2
