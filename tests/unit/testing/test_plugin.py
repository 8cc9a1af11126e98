"""The pytest plug-in, in a pytest process of its own: fixtures, and no imports if unused."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).parents[3]
PLUGIN = "litemq.testing.plugin"

TESTS = """
import asyncio

import pytest

from litemq import AsyncClient, Client


def test_synchronous(litemq_broker):
    with Client(litemq_broker.url) as mq:
        mq.send("orders", b"x")
        litemq_broker.drop_connections()
        mq.send("orders", b"y")
    assert [message.body for message in litemq_broker.messages("orders")] == [b"x", b"y"]


def test_fresh(litemq_broker):
    assert litemq_broker.messages("orders") == []


@pytest.mark.anyio
async def test_asynchronous(litemq_broker):
    async with AsyncClient(litemq_broker.url) as mq:
        await mq.send("orders", b"x")
        assert len(litemq_broker.messages("orders")) == 1


def test_with_a_loop_of_its_own(litemq_broker):
    async def main():
        async with AsyncClient(litemq_broker.url) as mq:
            await mq.send("orders", b"x")

    asyncio.run(main())
    assert len(litemq_broker.messages("orders")) == 1


def test_clock(litemq_broker, litemq_clock):
    assert litemq_broker.clock is litemq_clock
    with Client(litemq_broker.url) as mq:
        first = mq.send("orders", b"x")
        litemq_clock.advance(60)
        assert mq.send("orders", b"y").store_timestamp == first.store_timestamp + 60_000


@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

UNUSED = """
import sys


def test_nothing_is_imported():
    ours = {name for name in sys.modules if name.startswith("litemq")}
    assert ours == {"litemq", "litemq.testing", "litemq.testing.plugin"}, ours
"""


def _pytest(tests: str, folder: Path) -> str:
    (folder / "test_users.py").write_text(tests)
    # Found by its entry point, as users do; named explicitly if this copy is not installed.
    named = [] if any(entry.value == PLUGIN for entry in entry_points(group="pytest11")) else ["-p", PLUGIN]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *named, "test_users.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_entry_point_is_declared() -> None:
    announced = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert announced == {"litemq": PLUGIN}


def test_fixtures(tmp_path: Path) -> None:
    _pytest(TESTS, tmp_path)


def test_the_examples_of_the_how_to(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "test-your-code.md").read_text()
    tests = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert f"{tests.count('def test_')} passed" in _pytest(tests, tmp_path)


def test_unused_it_imports_nothing(tmp_path: Path) -> None:
    _pytest(UNUSED, tmp_path)
