"""Peers that do not read, fall silent, or overload the broker.

Other clients lose nothing, and the broker's memory stays bounded. ``just chaos`` measures for
longer and also checks latency: a steady client's p99 with and without such peers, in one run.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from litemq.client.async_client import AsyncClient
from litemq.net.event_loop import run
from support.chaos_length import JUDGES_TIME
from support.hostile import Hostile, body_of
from support.processes import ServerProcess
from support.steady_client import Latencies, percentile, steady

REPEATS: Final = 5 if JUDGES_TIME else 2
PHASE_S: Final = 4.0 if JUDGES_TIME else 1.0
MOST_RATIO: Final = 2.0
PER_SECOND: Final = 100
MIB: Final = 1 << 20


@contextlib.contextmanager
def one_broker(directory: Path) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with (
        ServerProcess("nameserver", directory / "names.log", data_path=directory / "names") as names,
        ServerProcess(
            "broker",
            directory / "broker.log",
            nameserver=names.address,
            data_path=directory / "a",
            auto_create_topics=True,
            default_queues=1,
        ) as broker,
    ):
        yield names, broker
    shutil.rmtree(directory / "a")  # gigabytes


@dataclass
class Comparison:
    """The latency of a well-behaved client, quiet and disturbed, and the broker's resources."""

    quiet: list[Latencies]
    disturbed: list[Latencies]
    before: tuple[int, int]
    most: tuple[int, int]

    def p99(self, latencies: list[Latencies], of: Callable[[Latencies], list[float]]) -> float:
        return statistics.median(percentile(of(each), 0.99) for each in latencies)

    @property
    def ratios(self) -> tuple[float, float]:
        """The ratios of the p99 of sending and of receiving."""
        sends = self.p99(self.disturbed, lambda each: each.sends) / self.p99(self.quiet, lambda each: each.sends)
        deliveries = self.p99(self.disturbed, lambda each: each.deliveries) / self.p99(
            self.quiet, lambda each: each.deliveries
        )
        return sends, deliveries

    def judge(self) -> None:
        """Check the ratios against their goal, if the run is long enough to measure them."""
        if JUDGES_TIME:
            assert max(self.ratios) < MOST_RATIO

    def report(self, title: str, **more: object) -> None:
        figures: dict[str, object] = {}
        for name, latencies in (("quiet", self.quiet), ("disturbed", self.disturbed)):
            sends = self.p99(latencies, lambda each: each.sends) * 1e3
            deliveries = self.p99(latencies, lambda each: each.deliveries) * 1e3
            figures[f"p99 {name}"] = f"send {sends:.1f} ms, end to end {deliveries:.1f} ms"
        figures["ratio"] = "send {:.2f}, end to end {:.2f}".format(*self.ratios)
        figures["resident"] = f"{self.before[0] / MIB:.0f} MiB before, {self.most[0] / MIB:.0f} MiB at most"
        figures["of no file"] = f"{self.before[1] / MIB:.0f} MiB before, {self.most[1] / MIB:.0f} MiB at most"
        figures |= more
        print(f"\n{title}", *(f"  {name:<28}{figure}" for name, figure in figures.items()), sep="\n")  # noqa: T201


@contextlib.asynccontextmanager
async def watched(broker: ServerProcess) -> AsyncIterator[list[tuple[int, int]]]:
    """Sample the broker's memory."""
    samples = [broker.memory()]

    async def watch() -> None:
        while True:
            samples.append(broker.memory())
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    try:
        yield samples
    finally:
        watching.cancel()


async def compare(
    mq: AsyncClient, broker: ServerProcess, disturb: Callable[[], Hostile]
) -> tuple[Comparison, list[dict[str, Any]]]:
    """Measure quiet and disturbed phases in turn."""
    quiet, disturbed, reports = [], [], []
    await mq.admin.create_topic("steady", queues=1)
    await steady(mq, "steady", per_second=PER_SECOND, seconds=0.5)  # connected, created, warm
    before = broker.memory()
    async with watched(broker) as samples:
        for _ in range(REPEATS):
            quiet.append(await steady(mq, "steady", per_second=PER_SECOND, seconds=PHASE_S))
            with disturb() as hostile:
                await asyncio.to_thread(hostile.wait_begun)
                await asyncio.sleep(1)
                disturbed.append(await steady(mq, "steady", per_second=PER_SECOND, seconds=PHASE_S))
                reports.append(await asyncio.to_thread(hostile.end))
    most = max(sample[0] for sample in samples), max(sample[1] for sample in samples)
    return Comparison(quiet, disturbed, before, most), reports


async def fill(mq: AsyncClient, topic: str, size: int) -> None:
    await mq.send_batch(topic, [bytes(64 << 10)] * (size >> 16))


def test_readers_that_never_read(tmp_path: Path) -> None:
    connections = 4

    async def scenario() -> None:
        with one_broker(tmp_path) as (names, broker):
            async with AsyncClient(f"litemq://{names.address}") as mq:
                await fill(mq, "full", 32 * MIB)
                found, reports = await compare(
                    mq, broker, lambda: Hostile("never-read", broker.port, "full", connections)
                )
            found.report(f"{connections} readers that never read", pulls_sent=[report["asked"] for report in reports])
            # For each: a full pull, as much again, and the pulls that wait.
            assert found.most[1] - found.before[1] < connections * 16 * MIB
            found.judge()

    run(scenario())


def test_half_open_connections(tmp_path: Path) -> None:
    connections = 20

    async def scenario() -> None:
        with one_broker(tmp_path) as (names, broker):
            async with AsyncClient(f"litemq://{names.address}") as mq:
                found, _ = await compare(mq, broker, lambda: Hostile("half-open", broker.port, "steady", connections))
                with Hostile("half-open", broker.port, "steady", connections) as hostile:
                    await asyncio.to_thread(hostile.wait_begun)
                    ended = await asyncio.to_thread(hostile.end)
                    memory = broker.memory()[1]
            found.report(
                f"3 x {connections} half-open connections", sent_away=ended, then=f"{memory / MIB:.0f} MiB of no file"
            )
            assert found.most[1] - found.before[1] < connections * 16 * MIB
            found.judge()
            assert ended == {"silent": connections, "idle": 0, "torn": connections}

    run(scenario())


@pytest.mark.parametrize("level", ["memory", "disk"] if JUDGES_TIME else ["disk"])
def test_a_producer_at_three_times_capacity(tmp_path: Path, level: str) -> None:
    size = 64 << 10

    async def scenario() -> None:
        with one_broker(tmp_path) as (names, broker):
            async with AsyncClient(f"litemq://{names.address}") as mq:
                await fill(mq, "flooded", MIB)
                with Hostile("flood", broker.port, "flooded", level, size, 1e12, 4 * MIB) as patient:
                    await asyncio.to_thread(patient.wait_begun)
                    await asyncio.sleep(3)
                    alone = await asyncio.to_thread(patient.end)
                capacity = alone["answers"]["acked"] * alone["record_bytes"] / alone["seconds"]
                began = time.monotonic()
                found, reports = await compare(
                    mq, broker, lambda: Hostile("flood", broker.port, "flooded", level, size, 3 * capacity, 0)
                )
                answers: dict[str, int] = {}
                for report in reports:
                    for kind, count in report["answers"].items():
                        answers[kind] = answers.get(kind, 0) + count
                lost = await missing(mq, [tuple(entry) for report in reports for entry in report["acked"]], size)
            offered = sum(report["sent_bytes"] for report in reports) / sum(report["seconds"] for report in reports)
            found.report(
                f"a producer at three times capacity, level {level}",
                capacity=f"{capacity / MIB:.0f} MiB/s",
                offered=f"{3 * capacity / MIB:.0f} MiB/s, of which {offered / MIB:.0f} MiB/s went out",
                answers=answers,
                retry_after_ms=sorted({ms for report in reports for ms in report["retry_after_ms"]}),
                lost=lost,
                took=f"{time.monotonic() - began:.0f} s",
            )
            assert lost == 0
            assert answers["acked"] > 0
            assert found.most[1] - found.before[1] < 256 * MIB
            found.judge()

    run(scenario())


async def missing(mq: AsyncClient, acked: list[tuple[int, int]], size: int) -> int:
    """Return the number of acknowledged messages that are not at the offset of their answer."""
    expected = dict(acked)
    assert len(expected) == len(acked), "one offset was given twice"
    async for message in mq.reader("flooded", follow=False):
        number = expected.pop(message.queue_offset, None)
        assert number is None or message.body == body_of(number, size)
    return len(expected)
