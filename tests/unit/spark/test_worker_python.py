"""Interpreter of Spark's workers: this one, without Spark's zip in its path."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
import pytest

from litemq.spark.worker_python import worker_python


@pytest.fixture(autouse=True)
def _no_spark_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("master", ["", "local", "local[*]", "local[2]"])
def test_the_installed_pyspark_is_imported(master: str, tmp_path: Path) -> None:
    installed = Path(pyspark.__file__).parent
    first = os.pathsep.join(
        [str(installed / "python" / "lib" / "pyspark.zip"), "/elsewhere/py4j-0.10.9-src.zip", str(tmp_path / "a b")]
    )
    code = "import os, sys, pyspark; print(pyspark.__file__, sys.argv[1], os.environ['PYTHONPATH'], sep='\\n')"
    command = [worker_python(master), "-c", code, "x y"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": first}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [pyspark.__file__, "x y", str(tmp_path / "a b")]
    assert command[0] != sys.executable


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "yarn", "k8s://x"])
def test_workers_elsewhere_have_no_script_of_this_machine(master: str) -> None:
    assert worker_python(master) == sys.executable


def test_another_spark_than_the_installed_one_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert worker_python("local[*]") == sys.executable


def test_where_nothing_may_be_run_python_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "noexec")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert worker_python("local[*]") == sys.executable
