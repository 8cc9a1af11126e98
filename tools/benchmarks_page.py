"""Write ``docs/benchmarks.md`` from the JSON of ``litemq bench suite peers --format json``.

``python tools/benchmarks_page.py peers.json MACHINE [PAGE]`` with a line about the machine.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"

HEAD: Final = """\
# LiteMQ beside its peers

<!-- Written by tools/benchmarks_page.py from the suite's JSON: see the last section. -->

The same workloads on LiteMQ and on other systems with their Python clients: bodies of 1 KiB, server
and client on one machine, each system with fresh data and default settings. A figure is the median of
{runs} interleaved runs. Rates of a shared machine change from minute to minute; the CPU time per
message is steadier. Compare systems that promise the same: *memory* survives the end of the server's
process, *disk* survives a power cut.

Measured on {date} with LiteMQ {version}: {machine}

| name | system |
|---|---|
{systems}
"""
FOOT: Final = """\
## Measure it yourself

The suite uses what it finds: `redis-server` and `nats-server` (2.10 or later syncs each message) in the
`PATH`, Kafka's jars in the directory `LITEMQ_BENCH_KAFKA` and RocketMQ's in `LITEMQ_BENCH_ROCKETMQ` with
Java 17, and the clients `redis`, `nats-py`, `confluent-kafka` and `aiokafka`. RocketMQ has no client for
Python that is maintained, so it is measured with its Java client.

```sh
pip install litemq redis nats-py confluent-kafka aiokafka
apt install redis-server nats-server openjdk-17-jdk-headless
mvn -f tools/kafka-pom.xml dependency:copy-dependencies -DoutputDirectory=$PWD/kafka-jars
mvn -f tools/rocketmq-pom.xml dependency:copy-dependencies -DoutputDirectory=$PWD/rocketmq-jars
export LITEMQ_BENCH_KAFKA=kafka-jars LITEMQ_BENCH_ROCKETMQ=rocketmq-jars
litemq bench suite peers --check
```

Before each measurement it waits up to ten seconds while a bare `fdatasync` takes more than 5 ms at
p99: on such a disk the figure would be the neighbour's.
"""
TITLES: Final = {
    "awaited": ("Each send is awaited", "256 sends are in flight, and each is awaited before the next."),
    "send_nowait": ("Send as fast as the client batches", "Every message is acknowledged in the end."),
    "consume": ("Consume a backlog", "A group reads 300,000 messages and acknowledges them."),
    "steady": ("2,000 messages per second", "End to end: from the scheduled time of a send to the receipt in a group."),
}
SYSTEM: Final = re.compile(r"[^:]+: (.*?)(, p50)?$")


def main() -> None:
    path, machine, page = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else PAGE
    suite = json.loads(path.read_text())
    figures: dict[str, Any] = suite["figures"]
    systems = _systems(figures)
    sections = [_section(workload, figures, systems) for workload in TITLES]
    runs = max(len(figure["runs"]) for figure in figures.values())
    head = HEAD.format(
        runs=runs,
        date=datetime.datetime.now(datetime.UTC).date(),
        version=suite["version"],
        machine=machine,
        systems="\n".join(f"| `{name}` | {what} |" for name, what in systems.items()),
    )
    page.write_text("\n".join([head, *sections, FOOT]))


def _systems(figures: dict[str, Any]) -> dict[str, str]:
    """Return the systems by name, with their versions and settings."""
    found = {}
    for name, figure in figures.items():
        workload = next(each for each in TITLES if name.startswith(f"{each}_"))
        short = name.removeprefix(f"{workload}_").removesuffix("_p50")
        said = SYSTEM.match(figure["what"])
        if said and not short.endswith(("_cpu", "_lead", "_p99")):
            found[short] = said[1]
    return found


def _section(workload: str, figures: dict[str, Any], systems: dict[str, str]) -> str:
    title, text = TITLES[workload]
    ends = ("_p50", "_p99") if workload == "steady" else ("",)
    measured = [name for name in systems if f"{workload}_{name}{ends[0]}" in figures]
    charts = [_chart(workload, end, measured, figures) for end in ends]
    columns = ["p50 (ms)", "p99 (ms)"] if workload == "steady" else ["msg/s", "min … max"]
    rows = [f"| | {' | '.join(columns)} | client's CPU (µs) | server's CPU (µs) |", "|---|" + "---:|" * 4]
    for name in measured:
        cpu = [figures[f"{workload}_{name}_{side}_cpu"]["value"] for side in ("client", "server")]
        if workload == "steady":
            shown = [f"{figures[f'{workload}_{name}{end}']['value']:.2f}" for end in ends]
        else:
            figure = figures[f"{workload}_{name}"]
            shown = [f"{figure['value']:,.0f}", f"{min(figure['runs']):,.0f} … {max(figure['runs']):,.0f}"]
        rows.append(f"| `{name}` | {' | '.join(shown)} | {cpu[0]:.1f} | {cpu[1]:.1f} |")
    leads = [
        f"- {promise}: {figures[name]['value']:.2f} ×, {figures[name]['what']}"
        for promise in ("memory", "disk")
        if (name := f"{workload}_{promise}_lead") in figures
    ]
    return "\n".join([f"## {title}\n", f"{text}\n", *charts, "", *rows, "", *leads, ""])


def _chart(workload: str, end: str, measured: list[str], figures: dict[str, Any]) -> str:
    values = [figures[f"{workload}_{name}{end}"]["value"] for name in measured]
    label = f"{end.lstrip('_')} (ms)" if end else "messages per second"
    names = ", ".join(f'"{name}"' for name in measured)
    bars = ", ".join(f"{value:.4g}" if end else f"{value:.0f}" for value in values)
    lines = ["```mermaid", "xychart-beta horizontal", f"  x-axis [{names}]", f'  y-axis "{label}"', f"  bar [{bars}]"]
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    main()
