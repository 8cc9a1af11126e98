"""A killed benchmark leaves neither files nor servers."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from litemq.bench.scratch import scratch_folder
from support.commands import environment_of_commands
from support.waiting import HANG_S, wait_until

_PROGRAM = """
import sys
from litemq.bench.clusters import running_broker
from litemq.bench.scratch import scratch_folder

with scratch_folder(), running_broker() as broker:
    print(broker.pid, flush=True)
    sys.stdin.read()
"""


def _start(folder: Path) -> "subprocess.Popen[str]":
    environment = environment_of_commands({"TMPDIR": str(folder)})
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("is_killed", [False, True])
def test_nothing_is_left(tmp_path: Path, is_killed: bool) -> None:
    with _start(tmp_path) as running:
        assert running.stdout is not None
        broker = int(running.stdout.readline())
        assert any(tmp_path.rglob("commitlog"))
        if is_killed:
            running.kill()
        running.communicate(timeout=HANG_S)
        assert is_killed or running.returncode == 0
    wait_until(lambda: not Path(f"/proc/{broker}").exists())
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_temporary_files_go_there_only_inside_the_block() -> None:
    before = tempfile.gettempdir()
    with scratch_folder() as folder:
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder)
    assert tempfile.gettempdir() == before
