"""``litemq up --replicas 3``: the printed master is killed, and sends go on."""

import os
import re
import shlex
import signal
import socket
from pathlib import Path

import pytest

from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_PARTIAL, EXIT_USAGE
from support.commands import litemq, up
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("not_under_nohup")

_LEASE = {"LITEMQ_NAMESERVER_MASTER_LEASE": "1s", "LITEMQ_UP_PORT": "0"}


def test_sends_go_on_after_a_kill_of_the_printed_master(tmp_path: Path) -> None:
    """The README shows these commands, and the line that names the master."""
    shown = (Path(__file__).parents[2] / "README.md").read_text().split("```console\n")[2].partition("```")[0]
    typed, named, kill, again = shown.splitlines()
    with up(tmp_path, *typed.split()[3:], **_LEASE) as (command, environment):
        said = next(line for line in command.printed if line.startswith("The master is"))
        assert re.sub(r"\d+", "N", said) == re.sub(r"\d+", "N", named)
        assert said.endswith(kill.removeprefix("$ ").replace("PID", said.split()[-1]))
        killed = re.fullmatch(r"The master is (replica-\d), pid (\d+)\. .*: kill -9 \2", said)
        assert killed is not None
        litemq("message", "send", "orders", "before", cwd=tmp_path, environment=environment)
        os.kill(int(killed[2]), signal.SIGKILL)
        litemq(*shlex.split(again)[2:], cwd=tmp_path, environment=environment)
        command.wait_for(f"{killed[1]} was killed: started it again, pid ")
        found = litemq("message", "tail", "orders", "--no-follow", cwd=tmp_path, environment=environment).stdout
        assert [line.split()[-1] for line in found.splitlines()] == ["before", "2}"]

        def status() -> int:
            return litemq("cluster", "status", cwd=tmp_path, check=False, environment=environment).returncode

        wait_until(lambda: status() == 0)  # the killed replica is in sync again
        assert command.stop() == 0
        assert "in epoch 3" not in command.all_of_it()  # the master stopped last, so no other one was elected
    with up(tmp_path, "--experimental", **_LEASE) as (command, environment):  # as many as before
        shown = litemq("message", "tail", "orders", "--no-follow", cwd=tmp_path, environment=environment).stdout
        assert '{"id": 2}' in shown
        assert command.stop() == 0
    for arguments in (("--replicas", "2"), ("--brokers", "1"), ("--replicas", "4")):
        refused = litemq("up", *arguments, "--experimental", cwd=tmp_path, check=False)
        assert refused.returncode == EXIT_USAGE
        assert "litemq-data has a group of 3 replicas: start with --replicas 3" in refused.stderr


def test_a_replica_that_is_killed_again_before_it_is_ready_starts_again(tmp_path: Path) -> None:
    with up(tmp_path, "--replicas", "2", "--experimental", **_LEASE) as (command, _):
        pid = _pid_of(tmp_path / "litemq-data" / "replica-1")
        for _ in range(3):
            os.kill(pid, signal.SIGKILL)
            pid = int(command.wait_for("replica-1 was killed: started it again, pid ").split()[-1])
        assert command.stop() == 0


def test_the_status_names_what_is_wrong(tmp_path: Path) -> None:
    with up(tmp_path, "--replicas", "3", "--experimental", **_LEASE) as (_, environment):
        stopped = _pid_of(tmp_path / "litemq-data" / "replica-1")
        os.kill(stopped, signal.SIGSTOP)
        try:

            def said() -> str:
                done = litemq("cluster", "status", cwd=tmp_path, check=False, environment=environment)
                return done.stderr if done.returncode == EXIT_PARTIAL else ""

            wait_until(lambda: "group broker-1: replica-1 has not reported for " in said())
        finally:
            os.kill(stopped, signal.SIGCONT)


def test_a_group_of_two_says_what_the_loss_of_one_stops(tmp_path: Path) -> None:
    with up(tmp_path, "--replicas", "2", "--experimental", **_LEASE) as (command, _):
        [said] = [line for line in command.printed if "all of its 2 replicas must have a message" in line]
        assert "set replication.min_in_sync = 1 or the environment variable LITEMQ_BROKER_MIN_IN_SYNC=1 on" in said
        assert "Or add a replica" in said
    one = {**_LEASE, "LITEMQ_BROKER_MIN_IN_SYNC": "1"}
    with up(tmp_path, "--data", "one", "--replicas", "2", "--experimental", **one) as (command, _):
        assert not [line for line in command.printed if "must have a message" in line]


def test_replicas_need_a_flag_and_an_own_directory(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:  # the flag is asked for first
        ports = ("--port", "0", "--nameserver-port", str(used.getsockname()[1]))
        refused = litemq("up", "--replicas", "3", *ports, cwd=tmp_path, check=False, environment=_LEASE)
    assert refused.returncode == EXIT_FAILED
    assert "To try it, pass --experimental" in refused.stderr
    assert not list(tmp_path.iterdir())
    with up(tmp_path, "--data", "alone") as (command, _):
        assert command.stop() == 0
    refused = litemq("up", "--replicas", "3", "--experimental", "--data", "alone", cwd=tmp_path, check=False)
    assert refused.returncode == EXIT_USAGE
    assert "alone has the messages of a broker without replicas" in refused.stderr
    refused = litemq("up", "--replicas", "3", "--brokers", "2", cwd=tmp_path, check=False)
    assert "--brokers and --replicas: choose one of them" in refused.stderr


def _pid_of(folder: Path) -> int:
    """Return the process that holds the lock of a data directory."""
    return int((folder / "lock").read_text())
