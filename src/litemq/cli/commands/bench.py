"""``litemq bench``: benchmark suites with their goals, and load on a running cluster."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Never

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from litemq import __version__
from litemq.bench.disk_space import check_disk_space
from litemq.bench.scratch import scratch_folder
from litemq.bench.suite import MIN_RUNS, SUITES, Figure, Measurement, load_notes, load_suite, measure, short
from litemq.cli.commands import bench_load
from litemq.cli.nouns import new_noun
from litemq.cli.rendering.output import Format, OutputFormat, write_value

__all__ = ["app"]

_WITHOUT_DATA: Final = ("format",)  # suites that write nothing to the disk

app = new_noun("bench")
bench_load.add_to(app)


@app.callback()
def bench() -> None:
    """Run benchmarks."""


@app.command("suite")
def suite(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"Suite to run: {', '.join(sorted(SUITES))}.", show_default=False)
    ],
    output: Format = OutputFormat.TABLE,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if a figure misses its goal.")] = False,
    runs: Annotated[int, typer.Option("--runs", min=MIN_RUNS, help="Runs of each figure.")] = MIN_RUNS,
    scale: Annotated[
        float,
        typer.Option("--scale", min=0.001, max=100.0, help="Factor for the amount of data; published figures use 1."),
    ] = 1.0,
) -> None:
    """Measure the figures of a suite and compare them with their goals.

    A figure is the median of its runs, shown with their minimum and maximum. The rounds of a
    failover count together, whichever run they belong to. The goals apply to --scale 1.
    """
    if name not in SUITES:
        raise typer.BadParameter(f"unknown suite {name!r}: choose from {', '.join(sorted(SUITES))}", param_hint="NAME")
    if check and scale != 1.0:
        raise typer.BadParameter("the goals apply to --scale 1 only", param_hint="--check")
    if name not in _WITHOUT_DATA:
        check_disk_space(Path(tempfile.gettempdir()), scale)
    with _ended_by_sigterm(), scratch_folder():
        measurements = _with_progress(name, load_suite(name, scale), runs)
    if output is not OutputFormat.TABLE:
        write_value(
            {
                "suite": name,
                "version": __version__,
                "scale": scale,
                "figures": {m.figure.name: m.as_json() for m in measurements},
            },
            output,
        )
    else:
        _print_table(name, measurements, scale)
    for note in load_notes(name):
        Console(stderr=True).print(f"[yellow]not measured:[/] {escape(note)}")
    missed = [m for m in measurements if not m.meets_goal]
    if check and missed:
        Console(stderr=True).print(f"[bold red]missed[/] {', '.join(m.figure.name for m in missed)}")
        raise typer.Exit(1)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Turn SIGTERM into ``SystemExit``, so that scratch data is removed as after Ctrl-C."""

    def end(number: int, _frame: object) -> Never:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _with_progress(name: str, figures: list[Figure], runs: int) -> list[Measurement]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=len(figures) * runs)

        def advance(figure: Figure) -> None:
            progress.update(task, description=figure.name, advance=1)

        return measure(figures, runs, after_run=advance)


def _print_table(name: str, measurements: list[Measurement], scale: float) -> None:
    table = Table(
        title=f"litemq bench suite {name}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("figure", min_width=30)
    for heading in ("value", "min … max", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for m in measurements:
        figure = m.figure
        judged = figure.goal is not None and scale == 1.0
        verdict = "" if not judged else ("[green]met[/]" if m.meets_goal else "[bold red]missed[/]")
        spread = f"{short(min(m.runs))} … {short(max(m.runs))}"
        goal = "" if figure.goal is None else str(figure.goal)
        table.add_row(
            f"{figure.name} [dim]{figure.unit}[/]\n[dim]{figure.what}[/]", short(m.value), spread, goal, verdict
        )
    console = Console()
    console.print(table)
    if scale != 1.0:
        console.print(f"[yellow]scale {scale:g}: not for publication; goals not checked[/]")
