"""``litemq up``: starts and stops quickly, and leaves no process behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_IN_USE, EXIT_INTERRUPTED, EXIT_UNREACHABLE, EXIT_USAGE
from support.commands import Running, free_ports, litemq, running, up, up_environment
from support.waiting import HANG_S, wait_until

pytestmark = pytest.mark.usefixtures("not_under_nohup")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Running, dict[str, str]]]:
    with up(tmp_path) as started:
        yield started


def _children(command: Running) -> list[int]:
    """Return the child processes, from ``/proc``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == command.process.pid:
            found.append(int(path.parent.name))
    return found


def _wait_gone(pids: list[int]) -> None:
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_the_printed_commands_work(tmp_path: Path, cluster: tuple[Running, dict[str, str]]) -> None:
    command, environment = cluster
    said = "\n".join(command.printed)
    assert f"export LITEMQ_URL={environment['LITEMQ_URL']}" in said
    assert "litemq message send orders '{\"id\": 1}'" in said
    assert litemq("message", "send", "orders", '{"id": 1}', cwd=tmp_path, environment=environment).stdout.startswith(
        "sent "
    )
    with running("message", "tail", "orders", cwd=tmp_path, environment=environment) as tail:
        assert tail.wait_for("id").endswith('{"id": 1}')
        litemq("message", "send", "orders", '{"id": 2}', cwd=tmp_path, environment=environment)
        tail.wait_for('{"id": 2}')
        assert tail.stop(signal.SIGINT) == 0
    assert sorted(path.name for path in (tmp_path / "litemq-data").iterdir()) == ["broker", "lock", "nameserver"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("whole_group", [False, True])
def test_a_signal_stops_all_in_good_order(
    cluster: tuple[Running, dict[str, str]], number: signal.Signals, whole_group: bool
) -> None:
    """Ctrl-C and service managers signal the whole process group."""
    command, _ = cluster
    children = _children(command)
    assert len(children) == 2
    if whole_group:
        os.killpg(command.process.pid, number)
    else:
        command.process.send_signal(number)
    assert command.process.wait(HANG_S) == 0
    _wait_gone(children)
    assert not [line for line in command.printed if "WARNING" in line or "ERROR" in line]


def test_messages_survive_a_restart(tmp_path: Path) -> None:
    with up(tmp_path) as (command, environment):
        litemq("message", "send", "orders", "first", cwd=tmp_path, environment=environment)
        assert command.stop() == 0
    with up(tmp_path) as (command, environment):
        assert (
            "first" in litemq("message", "tail", "orders", "--no-follow", cwd=tmp_path, environment=environment).stdout
        )
        assert command.stop() == 0


def test_if_a_child_dies_the_rest_stops_and_it_is_named(tmp_path: Path) -> None:
    with up(tmp_path, "--data", "my data", "--brokers", "1") as (command, _):
        children = _children(command)
        broker = next(pid for pid in children if b"auto_create_topics" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(broker, signal.SIGKILL)
        said = command.wait_for("broker exited unexpectedly with signal SIGKILL")
        assert "are safe: start it again with `litemq up --data 'my data' --brokers 1`" in said
        assert command.process.wait(HANG_S) == EXIT_FAILED
        _wait_gone(children)


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = litemq("up", "--data", "file/data", cwd=tmp_path, check=False)
    assert refused.returncode == EXIT_FAILED
    assert refused.stderr == (
        f"error StorageError (20): cannot write to the data directory {tmp_path}/file/data: Not a directory. "
        "Choose another one with --data\n"
    )


def test_children_end_with_a_killed_parent(cluster: tuple[Running, dict[str, str]]) -> None:
    command, _ = cluster
    children = _children(command)
    command.process.kill()
    _wait_gone(children)


def test_several_brokers_share_the_queues_of_a_topic(tmp_path: Path) -> None:
    with up(tmp_path) as (command, environment):
        litemq("message", "send", "orders", "first", cwd=tmp_path, environment=environment)
        assert command.stop() == 0
    with up(tmp_path, "--brokers", "2", LITEMQ_UP_PORT="0") as (command, environment):
        assert len(_children(command)) == 3
        described = litemq("topic", "create", "orders", cwd=tmp_path, environment=environment).stdout
        assert described.startswith("topic orders: 8 queues, 1 message")
        litemq("message", "send", "parcels", "second", cwd=tmp_path, environment=environment)
        described = litemq("topic", "describe", "parcels", cwd=tmp_path, environment=environment).stdout
        assert described.count("broker-1") == described.count("broker-2") == 4
        assert command.stop() == 0
    refused = litemq("up", "--brokers", "1", cwd=tmp_path, check=False)
    assert refused.returncode == EXIT_USAGE
    assert "litemq-data has the messages of 2 brokers: start with --brokers 2" in refused.stderr
    with up(tmp_path, LITEMQ_UP_PORT="0") as (command, environment):  # as many as before
        assert len(_children(command)) == 3
        for topic, body in (("orders", "first"), ("parcels", "second")):
            tail = litemq("message", "tail", topic, "--no-follow", cwd=tmp_path, environment=environment)
            assert body in tail.stdout


@pytest.mark.parametrize(
    ("port", "fault"),
    [("9875", "9876 is also the NameServer's port"), ("65534", "3 brokers need the ports 65534 … 65536")],
)
def test_the_ports_of_several_brokers(tmp_path: Path, port: str, fault: str) -> None:
    refused = litemq("up", "--brokers", "3", "--port", port, cwd=tmp_path, check=False)
    assert refused.returncode == EXIT_USAGE
    assert fault in refused.stderr


def test_a_second_one_in_the_same_directory_is_refused(tmp_path: Path, cluster: tuple[Running, dict[str, str]]) -> None:
    command, environment = cluster
    second = litemq("up", cwd=tmp_path, check=False, environment=environment)
    assert second.returncode == EXIT_IN_USE
    assert f"litemq up is already running with pid {command.process.pid}" in second.stderr
    assert second.stderr.count("\n") == 1


def test_a_second_one_elsewhere_names_the_port(tmp_path: Path, cluster: tuple[Running, dict[str, str]]) -> None:
    _, environment = cluster
    (tmp_path / "elsewhere").mkdir()
    second = litemq("up", cwd=tmp_path / "elsewhere", check=False, environment=environment)
    assert second.returncode == EXIT_IN_USE
    assert f"NameServer: cannot listen on 127.0.0.1:{environment['LITEMQ_UP_NAMESERVER_PORT']}" in second.stderr
    assert "--nameserver-port" in second.stderr


def test_a_broker_that_runs_in_the_directory_is_named(tmp_path: Path) -> None:
    nameserver, broker, other = map(str, free_ports(3))
    path = str(tmp_path / "litemq-data" / "broker")
    with running("broker", "--port", other, "--data-path", path, "--file-size", "16MiB", cwd=tmp_path) as first:
        first.wait_for("listening on")
        second = litemq("up", "--port", broker, "--nameserver-port", nameserver, cwd=tmp_path, check=False)
        assert second.returncode == EXIT_IN_USE
        assert f"in use by process {first.process.pid}" in second.stderr
        assert first.stop(signal.SIGINT) == 0


def test_an_open_address_needs_insecure(tmp_path: Path) -> None:
    refused = litemq("nameserver", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path, check=False)  # noqa: S104 (that is the point)
    assert refused.returncode == EXIT_USAGE
    assert "pass --insecure" in refused.stderr
    with running("nameserver", "--host", "0.0.0.0", "--port", "0", "--insecure", cwd=tmp_path) as open_one:  # noqa: S104
        open_one.wait_for("listening on 0.0.0.0:")
        assert open_one.stop() == 0


def test_the_files_in_configs_start_unchanged(tmp_path: Path) -> None:
    configs = Path(__file__).parents[2] / "configs"
    nameserver, broker = map(str, free_ports(2))
    with running(
        "nameserver", "--config", str(configs / "nameserver.toml"), "--port", nameserver, cwd=tmp_path
    ) as names:
        names.wait_for("listening on")
        arguments = (
            "--config",
            str(configs / "broker.toml"),
            "--port",
            broker,
            "--nameserver",
            f"localhost:{nameserver}",
        )
        with running("broker", *arguments, cwd=tmp_path) as started:
            started.wait_for("registered with the NameServer")
            assert (tmp_path / "data" / "broker" / "commitlog").is_dir()
            assert started.stop() == 0
        assert names.stop() == 0


def test_invalid_settings_are_one_line(tmp_path: Path) -> None:
    refused = litemq("broker", "--port", "many", cwd=tmp_path, check=False)
    assert refused.returncode == EXIT_USAGE
    assert refused.stderr == 'error ConfigurationError (4): --port: write a whole number, not "many"\n'


def test_an_unreachable_cluster_is_explained(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    alone = litemq("topic", "list", "--url", f"litemq://127.0.0.1:{port}", cwd=tmp_path, check=False)
    assert alone.returncode == EXIT_UNREACHABLE
    assert alone.stderr == (
        f"error ConnectionLostError (33): no NameServer is listening at 127.0.0.1:{port}: correct the URL, or start "
        f"one at this port with `litemq up --nameserver-port {port}`\n"
    )


def test_nohup_survives_a_closed_terminal(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a child inherits it
    try:
        with up(tmp_path) as (command, environment):
            os.killpg(command.process.pid, signal.SIGHUP)
            litemq("message", "send", "orders", "still there", cwd=tmp_path, environment=environment)
            assert command.stop() == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_second_signal_does_not_wait(tmp_path: Path) -> None:
    with up(tmp_path) as (command, _):
        children = _children(command)
        for pid in children:
            os.kill(pid, signal.SIGSTOP)  # such that they cannot stop
        command.process.send_signal(signal.SIGINT)
        command.wait_for("press Ctrl-C again to exit immediately")
        assert command.process.poll() is None
        assert command.stop(signal.SIGINT) == EXIT_INTERRUPTED
        _wait_gone(children)


def test_ctrl_c_during_the_start_prints_no_traceback(tmp_path: Path) -> None:
    with running("up", cwd=tmp_path, environment=up_environment()) as command:
        wait_until(lambda: len(_children(command)) == 2 or command.process.poll() is not None)
        children = _children(command)
        assert len(children) == 2
        os.killpg(command.process.pid, signal.SIGINT)  # as a terminal does: they still load what they need
        assert command.process.wait(HANG_S) == 0
        _wait_gone(children)
        assert "Traceback" not in command.all_of_it()
