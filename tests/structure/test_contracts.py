"""The import contracts of pyproject.toml: none ignores an import, each rejects a forbidden one."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]

# For each contract an import that it forbids: the importing file, and the line.
FORBIDDEN = {
    "Layers point down, siblings apart": ("net/frame.py", "import litemq.server.broker"),
    "Broker: a capability stands on the few below it": (
        "broker/timers/firing.py",
        "import litemq.broker.delivery.lessor",
    ),
    "Client: faces above, the engine's seam below": (
        "client/messages/message.py",
        "import litemq.client.consuming.feed",
    ),
    "Client: nothing in front of the engine interface imports what is behind it": (
        "client/consuming/feed.py",
        "import litemq.client.transport.channel",
    ),
    "Storage: files, log, projections, store, tools": (
        "storage/log/commitlog.py",
        "import litemq.storage.queues.queues",
    ),
    "Spark: a task needs no broker": ("spark/schema.py", "import litemq.broker.limits"),
    "Client: a client opens no store": ("client/config.py", "import litemq.storage.config"),
    "Spark: read, write and log stand apart": ("spark/write/sink.py", "import litemq.spark.read.rows"),
    "State: a part does not import the machine made of the parts": (
        "storage/state/delivery/tries.py",
        "import litemq.storage.state.machine_parts",
    ),
    "CLI: main above the commands, the commands above their parts": (
        "cli/processes/child.py",
        "import litemq.cli.commands.up",
    ),
    "Arrow: only its own package, Spark's and the benchmarks import pyarrow": ("storage/config.py", "import pyarrow"),
    "Spark: only its package and the benchmarks import pyspark or a table library": (
        "cli/commands/pipeline.py",
        "import pyspark",
    ),
    "gRPC: only the client for etcd imports it": ("nameserver/core.py", "import grpc"),
    "pandas: Spark needs it, LiteMQ does not": ("spark/schema.py", "import pandas"),
    "No package has an import cycle among its children": ("cli/rendering/output.py", "import litemq.cli.main"),
}


def _broken(folder: Path) -> list[str]:
    """The names of the contracts that the sources in ``folder`` break."""
    command = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as run; run()",
    ]
    done = subprocess.run([*command, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)
    verdicts = re.findall(r"^(.*) (KEPT|BROKEN)$", done.stdout, re.MULTILINE)
    assert [name for name, _ in verdicts] == [contract["name"] for contract in CONTRACTS], done.stdout + done.stderr
    assert (done.returncode == 0) == all(verdict == "KEPT" for _, verdict in verdicts)
    return [name for name, verdict in verdicts if verdict == "BROKEN"]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_no_contract_ignores_an_import() -> None:
    assert [contract["name"] for contract in CONTRACTS if "ignore_imports" in contract] == []


@pytest.mark.parametrize("contract", [contract["name"] for contract in CONTRACTS])
def test_a_forbidden_import_breaks_its_contract(copy: Path, contract: str) -> None:
    file, line = FORBIDDEN[contract]
    path = copy / "src" / "litemq" / file
    before = path.read_text()
    path.write_text(f"{before}\n{line}\n")
    try:
        assert contract in _broken(copy)
    finally:
        path.write_text(before)
