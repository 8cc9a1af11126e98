"""Spark examples: the notebook's cells and the declarative pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import litemq
from support.servers import Servers
from support.spark_processes import spark_environment
from support.waiting import HANG_S

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "spark"
PICTURES: Final = "drawing is a dependency of developers: pip install matplotlib"


def create(servers: Servers, topic: str) -> None:
    """Create the topic, as ``litemq up`` does automatically."""
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic(topic)


@pytest.mark.essential
def test_the_notebook(spark: SparkSession, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason=PICTURES)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("LITEMQ_URL", servers.url)
    create(servers, "notebook-orders")
    names: dict[str, Any] = {}
    for cell in json.loads((EXAMPLES / "orders.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "orders.ipynb", "exec"), names)  # noqa: S102 (our own example)
    assert names["orders"].count() == 2000
    assert names["spent"]["orders"].sum() == 2000
    heights = [bar.get_height() for bar in names["axes"].patches]
    assert heights == names["spent"]["spent"].tolist()
    assert sum(heights) == sum(5 + number * 37 % 195 for number in range(1, 2001))


def test_the_declarative_pipeline(servers: Servers, tmp_path: Path) -> None:
    """The second run, in the long form, reads only the messages since the first."""
    (tmp_path / "pipeline").mkdir()
    for path in (EXAMPLES / "pipeline").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = tmp_path / path.relative_to(EXAMPLES)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(path.read_text().replace("file:///tmp/litemq-pipeline", (tmp_path / "storage").as_uri()))
    create(servers, "pipeline-orders")
    spent: Counter[str] = Counter()
    for first in (1, 101)[: 2 if "LITEMQ_CHAOS_KILLS" in os.environ else 1]:
        with litemq.Client(servers.url) as mq:
            for number in range(first, first + 100):
                customer = f"c-{number % 3}"
                mq.send("pipeline-orders", json.dumps({"id": number, "customer": customer, "amount": number}))
                spent[customer] += number
        run = subprocess.run(
            [
                Path(sys.executable).with_name("spark-pipelines"),
                "run",
                "--conf",
                "spark.sql.catalogImplementation=hive",
            ],
            cwd=tmp_path / "pipeline",
            env=spark_environment(LITEMQ_URL=servers.url, SPARK_LOCAL_DIRS=str(tmp_path / "local")),
            capture_output=True,
            text=True,
            check=False,
            timeout=10 * HANG_S,
        )
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
        found = pq.read_table(tmp_path / "pipeline" / "spark-warehouse" / "spent").to_pydict()
        assert dict(zip(found["customer"], found["spent"], strict=True)) == spent
        assert sum(found["orders"]) == first + 99
    pytest.importorskip("matplotlib", reason=PICTURES)
    drawn = subprocess.run(
        [sys.executable, "chart.py"],
        cwd=tmp_path / "pipeline",
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        drawn.stdout == "spent.png: " + ", ".join(f"{name} {amount}" for name, amount in sorted(spent.items())) + "\n"
    )
    assert (tmp_path / "pipeline" / "spent.png").stat().st_size > 1000
