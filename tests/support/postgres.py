"""A temporary PostgreSQL server for a test, on a socket in a folder."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.waiting import HANG_S, wait_until

__all__ = ["postgres"]

_SUPERUSERS_OWN = "postgres"  # the user that Debian's package makes: the server does not run as root


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    return found[-1].parent


@contextmanager
def postgres() -> Iterator[dict[str, str]]:
    """Run the server; yield the environment in which ``psycopg.connect()`` finds it."""
    programs = _programs()
    owner: str | None = None
    folder = Path(tempfile.mkdtemp(prefix="litemq-postgres-"))
    if os.getuid() == 0:
        owner = _SUPERUSERS_OWN
        os.chown(folder, pwd.getpwnam(owner).pw_uid, pwd.getpwnam(owner).pw_gid)
        for parent in folder.parents:
            if parent.name.startswith("litemq-"):  # folders of the test run are not readable by other users
                parent.chmod(stat.S_IMODE(parent.stat().st_mode) | stat.S_IXGRP | stat.S_IXOTH)
    folder.chmod(0o755)
    data = folder / "data"

    def run(program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(programs / program), *arguments]
        return subprocess.Popen(command, cwd=folder, user=owner, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    try:
        assert run("initdb", "-D", str(data), "-A", "trust", "-U", "litemq", "--no-sync").wait(HANG_S) == 0
        server = run("postgres", "-D", str(data), "-k", str(folder), "-c", "listen_addresses=", "-c", "fsync=off")
        try:
            wait_until(lambda: run("pg_isready", "-q", "-h", str(folder)).wait(HANG_S) == 0)
            yield {"PGHOST": str(folder), "PGUSER": "litemq", "PGDATABASE": "postgres"}
        finally:
            server.terminate()
            server.wait(HANG_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
