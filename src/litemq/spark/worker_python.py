"""The Python of Spark's workers on this machine: the one that runs here, with the pyspark that is installed for it.

Spark puts a zip with its Python files in front of everything else that a worker imports. Nothing that is in a zip stays compiled: each process
compiles it anew, which takes longer than all else that it does before its first row. The installed files are the same ones.
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
for place in $PYTHONPATH; do
    case $place in
        '' | */pyspark.zip | */py4j-*.zip) ;;
        *) kept=${{kept:+$kept:}}$place ;;
    esac
done
unset IFS
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python(master: str) -> str:
    """What is to be run: this Python, through a script of a few lines where workers are on this machine for sure and the script can be run."""
    if (master and not master.startswith("local")) or any(os.environ.get(name) for name in _OVERRIDES):
        return sys.executable
    if not (Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip").is_file():
        return sys.executable  # it stands elsewhere, and may be another one
    folder = tempfile.mkdtemp(prefix="litemq-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = Path(folder) / "python"
    script.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)))
    script.chmod(0o700)
    try:
        ran = subprocess.run([script, "-c", ""], check=False, stdin=subprocess.DEVNULL, capture_output=True)  # noqa: S603
    except OSError:  # nothing may be run from there
        return sys.executable
    return str(script) if ran.returncode == 0 else sys.executable
