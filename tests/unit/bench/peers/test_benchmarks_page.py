"""``tools/benchmarks_page.py``: every system and figure of the suite's JSON is on the page."""

import json
import subprocess
import sys
from pathlib import Path

from litemq.bench.suites.peers import figures

ROOT = Path(__file__).parents[4]


def test_the_page_has_every_figure(tmp_path: Path) -> None:
    measured = {
        figure.name: {"what": figure.what, "value": 1000.0 + at, "runs": [1.0, 2.0, 3.0], "unit": figure.unit}
        for at, figure in enumerate(figures(1.0))
    }
    (tmp_path / "peers.json").write_text(json.dumps({"version": "1.2.3", "figures": measured}))
    page = tmp_path / "page.md"
    tool = str(ROOT / "tools" / "benchmarks_page.py")
    subprocess.run([sys.executable, tool, str(tmp_path / "peers.json"), "two cores.", str(page)], check=True)
    text = page.read_text()
    assert "LiteMQ 1.2.3: two cores." in text
    assert text.count("```mermaid") == 5
    for name, figure in measured.items():
        shown = f"{figure['value']:,.0f}" if figure["unit"] == "msg/s" else f"{figure['value']:.1f}"
        assert shown in text, name
