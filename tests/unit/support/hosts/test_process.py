"""A frozen process does nothing more, not even with the answer of a call that was in flight."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from support.hosts.process import freeze
from support.waiting import wait_until

_SYNCS: Final = """
import os, sys, threading

def work(number):
    file = os.open(f"{sys.argv[1]}-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        os.write(file, b"x")
        os.fdatasync(file)
        os.write(1, b".")

for number in range(4):
    threading.Thread(target=work, args=(number,)).start()
"""


def test_a_frozen_process_says_nothing_more(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", _SYNCS, str(tmp_path / "file")], stdout=output)
    tasks = Path(f"/proc/{process.pid}/task")
    try:
        for _ in range(20):
            before = said.stat().st_size
            wait_until(lambda before=before: said.stat().st_size > before)  # type: ignore[misc]
            freeze(process.pid)
            frozen_at = said.stat().st_size
            wait_until(lambda: all(" T " in (each / "stat").read_text() for each in tasks.iterdir()))
            assert said.stat().st_size == frozen_at
            process.send_signal(signal.SIGCONT)
    finally:
        process.kill()
        process.wait()
