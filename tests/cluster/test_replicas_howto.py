"""The commands of ``docs/howto/replicas.md``: three machines from scratch or from one broker, and a
lost disk.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from litemq.cli.rendering.exit_codes import EXIT_PARTIAL
from support.commands import Running, free_ports, litemq, running
from support.howto_commands import howto_commands
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("not_under_nohup")

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "replicas.md"
ADDRESSES = {f"node-{number}": f"127.0.0.{number}" for number in (1, 2, 3)}


def _commands() -> list[str]:
    """Return the commands for other machines: NameServer, first broker, second broker, new disk."""
    blocks = re.findall(r"^```sh\n(litemq (?:nameserver|broker).*?)^```$", HOWTO.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]


class _Machines:
    """Starts the commands of the page: each machine is a loopback address and a folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        (self._port,) = free_ports(1)
        self.environment = {
            "LITEMQ_URL": f"litemq://127.0.0.1:{self._port}",
            "LITEMQ_NAMESERVER_PORT": str(self._port),
            "LITEMQ_NAMESERVER_MASTER_LEASE": "1s",
            "LITEMQ_BROKER_PORT": "0",
            "LITEMQ_BROKER_FILE_SIZE": "16MiB",
        }

    def start(self, node: str, command: str) -> Running:
        """Run ``command`` of the page as ``node``."""
        typed = command.replace("9876", str(self._port)).replace("--broker-id node-2", f"--broker-id {node}")
        typed = typed.replace("--host node-2", f"--host {node}")
        for name, address in ADDRESSES.items():
            typed = typed.replace(f"--host {name}", f"--host {address}").replace(f"{name}:", f"{address}:")
        (self._folder / node).mkdir(exist_ok=True)
        process = self._stack.enter_context(
            running(*shlex.split(typed)[1:], cwd=self._folder / node, environment=self.environment)
        )
        process.wait_for("listening on")
        return process

    def status(self) -> tuple[int, str]:
        done = litemq("cluster", "status", cwd=self._folder, check=False, environment=self.environment)
        return done.returncode, done.stdout + done.stderr

    def tried(self, *arguments: str) -> tuple[int, str]:
        """Run a command that may be refused; return its exit status and output."""
        done = litemq(*arguments, cwd=self._folder, check=False, environment=self.environment)
        return done.returncode, done.stdout

    def run(self, *arguments: str) -> str:
        return litemq(*arguments, cwd=self._folder, environment=self.environment).stdout


@contextmanager
def _machines(folder: Path) -> Iterator[_Machines]:
    with ExitStack() as stack:
        yield _Machines(folder, stack)


def test_three_machines_from_scratch_and_a_lost_disk(tmp_path: Path) -> None:
    nameserver, first, other, on_a_new_disk = _commands()
    with _machines(tmp_path) as machines:
        machines.start("node-1", nameserver)
        machines.start("node-1", first)
        second = machines.start("node-2", other)
        machines.start("node-3", other)
        wait_until(lambda: machines.status()[0] == 0)
        machines.run("topic", "create", "orders")
        machines.run("message", "send", "orders", "before")
        second.stop()
        wait_until(lambda: machines.status()[0] == EXIT_PARTIAL and "node-2 has not reported" in machines.status()[1])
        machines.run("message", "send", "orders", "without node-2")
        machines.start("node-2", on_a_new_disk)
        wait_until(lambda: machines.status()[0] == 0)  # the newcomer is in sync, and the lost replica forgotten
        found = machines.run("message", "tail", "orders", "--no-follow")
        assert [line.partition(" ")[2].partition(" ")[2] for line in found.splitlines()] == ["before", "without node-2"]


def test_a_broker_becomes_a_group(tmp_path: Path) -> None:
    nameserver, first, other, _ = _commands()
    look, change = howto_commands("replicas.md", "Turn a broker into a group")
    with _machines(tmp_path) as machines:
        machines.start("node-1", nameserver)
        alone = machines.start("node-1", first.replace(" --replicas 3 --experimental", ""))
        machines.run("topic", "create", "orders")
        machines.run("message", "send", "orders", "before")
        alone.stop()
        machines.start("node-1", first)
        machines.start("node-2", other)
        machines.start("node-3", other)
        wait_until(lambda: machines.status()[1].count("alive") == 3)
        wait_until(lambda: "would recover group orders" in machines.tried(*look)[1])
        assert "facts lost" in machines.status()[1]
        wait_until(lambda: machines.tried(*change)[0] == 0)
        wait_until(lambda: machines.status()[0] == 0)
        machines.run("message", "send", "orders", "after")
        found = machines.run("message", "tail", "orders", "--no-follow")
        assert [line.partition(" ")[2].partition(" ")[2] for line in found.splitlines()] == ["before", "after"]
