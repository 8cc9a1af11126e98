"""Python interpreter of Spark's local workers: this one, with the installed pyspark.

Spark puts a zip of its Python files first in a worker's path. Modules in a zip have no bytecode
cache, so each process compiles them again, which takes most of the time before its first row. The
script here removes the zip from the path; the installed files are the same.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

__all__ = ["worker_python"]

# Variables that choose another Spark, or its Python.
_OVERRIDES: Final = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
_SCRIPT: Final = """\
#!/bin/sh
kept=
set -f
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        '' | */pyspark.zip | */py4j-*.zip) ;;
        *) kept=${{kept:+$kept:}}$entry ;;
    esac
done
unset IFS
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python(master: str) -> str:
    """Return the interpreter for ``PYSPARK_PYTHON``.

    A wrapper script, if workers certainly run on this machine and the script is executable;
    otherwise ``sys.executable``.
    """
    if (master and not master.startswith("local")) or any(os.environ.get(name) for name in _OVERRIDES):
        return sys.executable
    if not (Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip").is_file():
        return sys.executable  # pyspark is elsewhere, possibly another version
    folder = tempfile.mkdtemp(prefix="litemq-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = Path(folder) / "python"
    script.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)))
    script.chmod(0o700)
    try:
        ran = subprocess.run([script, "-c", ""], check=False, stdin=subprocess.DEVNULL, capture_output=True)  # noqa: S603
    except OSError:  # the temporary directory does not allow execution
        return sys.executable
    return str(script) if ran.returncode == 0 else sys.executable
