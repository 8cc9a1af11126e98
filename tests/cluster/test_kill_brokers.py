"""Two brokers that are killed in turn under load.

No acknowledged message is lost, repeated, or out of order.
``LITEMQ_CHAOS_SECONDS`` sets the duration.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from litemq.net.event_loop import run
from support.chaos_cluster import BETWEEN_KILLS, cluster, kill_in_turn, until_ready
from support.chaos_length import JUDGES_TIME, SECONDS, SETTLE_S
from support.chaos_load import ChaosLoad, running
from support.history import Outcome, problems
from support.waiting import eventually

_PROGRESS = 200


def report(title: str, load: ChaosLoad, **more: str) -> None:
    history = load.history
    figures = {
        "sent": f"{len(history.outcomes):,}",
        "acked": f"{history.count(Outcome.ACKED):,}",
        "unknown": f"{history.count(Outcome.UNKNOWN):,}",
        "refused": f"{history.count(Outcome.REFUSED):,}",
        "in the log": f"{len(history.log):,}",
        "delivered again": f"{history.repeated:,}",
        "longest without an ack": ", ".join(
            f"{broker} {gap:.2f} s" for broker, gap in sorted(load.acks.longest.items())
        ),
        "longest without a delivery": ", ".join(
            f"{group} {gap:.2f} s" for group, gap in sorted(load.arrivals.longest.items())
        ),
        **more,
    }
    print(f"\n{title}", *(f"  {name:<28}{figure}" for name, figure in figures.items()), sep="\n")  # noqa: T201
    for error in sorted(set(load.errors))[:5]:
        print(f"  {load.errors.count(error)} x {error}")  # noqa: T201


def _progress(load: ChaosLoad) -> tuple[int, int]:
    """Return the acknowledged sends, and the deliveries to the group that keeps its consumer."""
    return load.history.count(Outcome.ACKED), len(load.history.deliveries["steady", 0])


@pytest.mark.skipif(SECONDS < 2 * BETWEEN_KILLS, reason="too short for a kill of each")
def test_kill_brokers(tmp_path: Path) -> None:
    async def scenario() -> None:
        with cluster(tmp_path) as (names, brokers):
            load = ChaosLoad(f"litemq://{names.address}")
            async with running(load, lives=5, settle=SETTLE_S):
                kills = await kill_in_turn(brokers, SECONDS)
            starts = [seconds for broker in brokers.values() for seconds in broker.starts[1:]]
            report(f"brokers killed {kills} times in {SECONDS:g} s", load, started_again=f"{max(starts):.2f} s at most")
            assert problems(load.history) == []
            assert load.history.count(Outcome.ACKED) > (100 * SECONDS if JUDGES_TIME else _PROGRESS)

    run(scenario())


def test_kill_nameserver(tmp_path: Path) -> None:
    """Sends and deliveries continue without the NameServer, and after all servers were killed."""

    async def scenario() -> None:
        with cluster(tmp_path) as (names, brokers):
            load = ChaosLoad(f"litemq://{names.address}")
            async with running(load, lives=3600, settle=SETTLE_S):
                await eventually(lambda: min(_progress(load)) > _PROGRESS)
                names.kill()
                before = _progress(load)
                await asyncio.sleep(SECONDS / 3)
                after = _progress(load)
                await eventually(
                    lambda: all(now - then > _PROGRESS for now, then in zip(_progress(load), before, strict=True))
                )
                without = max((*load.acks.longest.values(), *load.arrivals.longest.values()))
                brokers["a"].kill()  # and a broker comes back while no NameServer runs
                brokers["a"].start()
                await asyncio.sleep(SECONDS / 3)
                for server in (names, *brokers.values()):
                    server.kill()
                for server in (names, *brokers.values()):
                    server.start()
                await until_ready(names, *brokers.values())
                await asyncio.sleep(SECONDS / 6)
            report("NameServer killed, then everything", load, longest_without_nameserver=f"{without:.2f} s")
            assert problems(load.history) == []
            if JUDGES_TIME:
                assert after[0] - before[0] > 100 * SECONDS / 3
                assert after[1] - before[1] > 100 * SECONDS / 3
                assert without < 2, "sends or deliveries waited for the NameServer"

    run(scenario())
