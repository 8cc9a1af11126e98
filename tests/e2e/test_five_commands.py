"""Five commands of the how-to, from installation to a queried table."""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from support.commands import Running, free_ports
from support.fresh_environment import fresh_environment
from support.waiting import HANG_S

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


@pytest.mark.wheel
@pytest.mark.spark
def test_from_nothing_to_a_queried_table(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    found = re.search(r"^```console\n(.*?)^```$", HOWTO.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    install, up, *others = [line.removeprefix("$ ") for line in found[1].splitlines() if line.startswith("$ ")]
    assert (install, up, len(others)) == ("pip install 'litemq[spark]'", "litemq up", 3)

    commands = fresh_environment(tmp_path / "fresh", "spark")
    nameserver, broker = map(str, free_ports(2))
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "LITEMQ_", "VIRTUAL_ENV", "SPARK_"))
        },
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "LITEMQ_UP_NAMESERVER_PORT": nameserver,
        "LITEMQ_UP_PORT": broker,
        "LITEMQ_URL": f"litemq://127.0.0.1:{nameserver}",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    work = tmp_path / "work"
    work.mkdir()
    with subprocess.Popen(
        [commands / "litemq", "up"],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        running = Running(process)
        try:
            running.wait_for("LiteMQ is ready")
            for command in others:
                words = shlex.split(command)
                done = subprocess.run(
                    [commands / words[0], *words[1:]],
                    cwd=work,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=10 * HANG_S,  # Spark begins slowly
                )
                assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert '{"id": 1}' in done.stdout
            assert running.stop(signal.SIGINT) == 0
        finally:
            running.end()
