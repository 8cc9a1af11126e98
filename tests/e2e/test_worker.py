"""``litemq worker`` with a real broker: handlers run, hang, are killed, are stopped."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from litemq import Client
from support.commands import Running, litemq, running, up, up_environment
from support.waiting import HANG_S, wait_until

FOR_EVER_S = 100 * HANG_S  # what takes so long is not waited for: the test would hang, and fail

PROGRAM = """
import asyncio, os, re, time
import litemq

mq = litemq.AsyncClient(os.environ["LITEMQ_URL"])
prefix = os.environ["PREFIX"]

def say(*words):
    print(*words, os.getpid(), flush=True)

@mq.task(topic=prefix + "sums")
async def add(a: int, b: int) -> None:
    say("sum", a + b)

@mq.task(topic=prefix + "naps", lease=36000)
async def nap(seconds: float) -> None:
    say("nap begins")
    await asyncio.sleep(seconds)
    say("nap ends")

@mq.task(topic=prefix + "hangs", time_limit=1)
def hang(seconds: float) -> None:
    say("hang", seconds)
    time.sleep(seconds)

@mq.task(topic=prefix + "patterns")
def pattern() -> None:
    say("pattern")
    re.match("(a+)+$", "a" * 60 + "b")
"""


@pytest.fixture(scope="module")
def _up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("worker")
    with up(folder) as (_, environment):
        (folder / "shop.py").write_text(PROGRAM)
        (folder / "idle.py").write_text("import litemq\nmq = litemq.AsyncClient()\n")
        yield {**environment, "FOLDER": str(folder)}


@pytest.fixture
def environment(_up: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
    """Return an environment whose topics no other test uses."""
    return {**_up, "PREFIX": f"{abs(hash(request.node.name))}-"}


def worker(environment: dict[str, str], *arguments: str) -> Any:
    return running(
        "worker", "shop:mq", "--log-level", "info", *arguments, cwd=Path(environment["FOLDER"]), environment=environment
    )


def call(environment: dict[str, str], topic: str, *args: object) -> None:
    with Client(environment["LITEMQ_URL"]) as mq:
        mq.send(environment["PREFIX"] + topic, {"args": list(args), "kwargs": {}})


def stop_at_once(worker: Running) -> None:
    """Send a second signal after the first was received."""
    worker.process.send_signal(signal.SIGINT)
    worker.wait_for("stopping")
    assert worker.stop(signal.SIGTERM) == 0


def test_it_runs_handlers_and_stops_after_a_signal(environment: dict[str, str]) -> None:
    call(environment, "sums", 1, 2)
    with worker(
        environment, "--concurrency", "4", "--processes", "2", "--shutdown-timeout", f"{FOR_EVER_S:g}s"
    ) as running_worker:
        line = running_worker.wait_for("is running in 2 processes")
        prefix = environment["PREFIX"]
        assert f"add of {prefix}sums, nap of {prefix}naps" in line
        call(environment, "sums", 20, 22)
        running_worker.wait_for("sum 42")
        call(environment, "naps", 1.5)
        running_worker.wait_for("nap begins")
        assert running_worker.stop() == 0
        running_worker.wait_for("nap ends")


def test_the_second_signal_gives_back_what_is_not_done(environment: dict[str, str]) -> None:
    with worker(environment, "--shutdown-timeout", f"{FOR_EVER_S:g}s") as running_worker:
        running_worker.wait_for("is running")
        call(environment, "naps", FOR_EVER_S)
        running_worker.wait_for("nap begins")
        stop_at_once(running_worker)
    with worker(environment, "--shutdown-timeout", f"{FOR_EVER_S:g}s") as running_worker:
        running_worker.wait_for("nap begins")  # it was not acknowledged, and its lease has not ended by itself
        stop_at_once(running_worker)


def test_a_process_whose_handler_cannot_be_stopped_is_replaced(environment: dict[str, str]) -> None:
    with worker(environment) as running_worker:
        running_worker.wait_for("is running")
        call(environment, "hangs", FOR_EVER_S)
        first = running_worker.wait_for(f"hang {FOR_EVER_S}").split()[-1]
        running_worker.wait_for("replacing a process")
        call(environment, "sums", 3, 4)
        second = running_worker.wait_for("sum 7").split()[-1]
        assert first != second
        assert not Path(f"/proc/{first}").exists()
        running_worker.stop()


def test_a_process_whose_loop_does_not_turn_is_replaced(environment: dict[str, str]) -> None:
    with worker(environment, "--stall-timeout", "2s") as running_worker:
        running_worker.wait_for("is running")
        call(environment, "patterns")
        first = running_worker.wait_for("pattern").split()[-1]
        running_worker.wait_for("in pattern")  # where it hung, from the last words of the process
        running_worker.wait_for("replacing it")
        assert not Path(f"/proc/{first}").exists()
        running_worker.stop()


def test_a_process_that_is_killed_is_replaced_and_ends_with_its_parent(environment: dict[str, str]) -> None:
    with worker(environment) as running_worker:
        running_worker.wait_for("is running")
        call(environment, "sums", 1, 1)
        first = int(running_worker.wait_for("sum 2").split()[-1])
        os.kill(first, signal.SIGKILL)
        running_worker.wait_for("signal SIGKILL: replacing it")
        call(environment, "sums", 2, 2)
        second = int(running_worker.wait_for("sum 4").split()[-1])
        running_worker.process.kill()
        wait_until(lambda: not _runs(second))


def _runs(pid: int) -> bool:
    """Return whether ``pid`` is a litemq process; process ids are reused."""
    try:
        return "litemq" in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        ("shop", 2, "write module:name"),
        ("nothing:mq", 2, "no module 'nothing'"),
        ("shop:add", 2, "'add' is not a litemq.AsyncClient"),
        ("shop:none", 2, "'none' is not a litemq.AsyncClient or litemq.Client in that module: choose shop:mq"),
        ("idle:mq", 2, "no handler is declared"),
    ],
)
def test_what_cannot_be_run_says_why(environment: dict[str, str], target: str, code: int, says: str) -> None:
    result = litemq(
        "worker", target, cwd=Path(environment["FOLDER"]), check=False, environment={**environment, "COLUMNS": "200"}
    )
    assert result.returncode == code
    assert says in result.stderr


def test_a_worker_may_start_before_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    environment = {**up_environment(), "PREFIX": "early-", "FOLDER": str(tmp_path)}
    with worker(environment) as running_worker, worker(environment) as other:
        other.wait_for("cannot connect to the NameServer")
        assert other.stop() == 0
        running_worker.wait_for("cannot connect to the NameServer")
        with running("up", cwd=tmp_path, environment=environment):
            running_worker.wait_for("is running")
            call(environment, "sums", 1, 2)
            running_worker.wait_for("sum 3")
            assert running_worker.stop() == 0


def test_a_program_that_cannot_be_imported_is_reported_once(environment: dict[str, str]) -> None:
    folder = Path(environment["FOLDER"])
    (folder / "broken.py").write_text("import litemq\nimport nothing_like_this\n")
    result = litemq(
        "worker",
        "broken:mq",
        "--processes",
        "3",
        cwd=folder,
        check=False,
        environment={**environment, "COLUMNS": "200"},
    )
    assert result.returncode == 2
    assert result.stderr.count("No module named 'nothing_like_this'") == 1
    assert f"{folder / 'broken.py'}, line 2: " in result.stderr
    assert "Traceback" not in result.stderr


def test_only_the_chosen_handlers_run_at_the_url_of_the_command(environment: dict[str, str]) -> None:
    prefix, url = environment["PREFIX"], environment["LITEMQ_URL"]
    elsewhere = {**environment, "LITEMQ_URL": "litemq://127.0.0.1:1"}  # what the program has
    chosen = ("--processes", "2", "--handler", "add", "--topic", f"{prefix}sums", "--group", "workers")
    with worker(elsewhere, "--url", url, *chosen) as running_worker:
        assert running_worker.wait_for("is running in 2 processes").endswith(f": add of {prefix}sums")
        call(environment, "sums", 20, 22)
        running_worker.wait_for("sum 42")
        with Client(url) as mq:
            topics = mq.admin.topics()
        assert f"{prefix}sums" in topics
        assert f"{prefix}naps" not in topics
        assert running_worker.stop() == 0
    refused = litemq(
        "worker", "shop:mq", "--handler", "ad", cwd=Path(environment["FOLDER"]), check=False, environment=environment
    )
    assert refused.returncode == 2
    assert "did you mean add? choose add, hang, nap, pattern" in refused.stderr


RELOADED = """
import os
import litemq

mq = litemq.AsyncClient(os.environ["LITEMQ_URL"])

@mq.task(topic=os.environ["PREFIX"] + "sums")
async def add(a: int, b: int) -> None:
    print("{name}", a + b, flush=True)
"""


def test_reload_runs_the_new_code_and_waits_while_it_is_broken(environment: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(RELOADED.format(name="first"))
    environment = {**environment, "FOLDER": str(tmp_path)}
    with worker(environment, "--reload", "--processes", "2") as running_worker:
        running_worker.wait_for("is running")
        call(environment, "sums", 1, 2)
        running_worker.wait_for("first 3")
        program.write_text("mq = (\n")
        running_worker.wait_for("shop.py changed: restarting")
        running_worker.wait_for("line 1: SyntaxError: '(' was never closed: mq = (: waiting for the next change")
        program.write_text(RELOADED.format(name="third"))
        running_worker.wait_for("is running in 2 processes")
        call(environment, "sums", 3, 4)
        running_worker.wait_for("third 7")
        assert running_worker.stop() == 0


def test_reload_lets_running_calls_finish(environment: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM)
    environment = {**environment, "FOLDER": str(tmp_path)}
    with worker(environment, "--reload", "--shutdown-timeout", f"{FOR_EVER_S:g}s") as running_worker:
        running_worker.wait_for("is running")
        call(environment, "naps", 1.5)
        running_worker.wait_for("nap begins")
        program.write_text(PROGRAM + "\n")
        running_worker.wait_for("changed: restarting")
        running_worker.wait_for("nap ends")
        running_worker.wait_for("is running")
        assert running_worker.stop() == 0


def test_a_broken_program_at_the_first_start_ends_the_worker(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("mq = (\n")
    result = litemq("worker", "shop:mq", "--reload", cwd=tmp_path, check=False, environment=environment)
    assert result.returncode == 2
    assert result.stderr.count("was never closed") == 1
