"""Two brokers that are killed in turn, again and again, while timers fire: none is lost, none comes twice, none comes early.

``LITEMQ_CHAOS_SECONDS`` says for how long.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from litemq.net.event_loop import run
from support.chaos_cluster import BETWEEN_KILLS, cluster, kill_in_turn
from support.history import Outcome
from support.time_history import time_problems
from support.time_load import TimeLoad, running

SECONDS: Final = float(os.environ.get("LITEMQ_CHAOS_SECONDS", "9"))
SETTLE: Final = 60.0


def report(title: str, load: TimeLoad) -> None:
    history = load.history
    stored_at = dict(history.timer_log)
    late = sorted(stored_at[name] - max(story.possible_dues) for name, story in history.timers.items() if name in stored_at)
    figures = {
        "timers": f"{len(history.timers):,}",
        "of them acked": f"{sum(story.outcome is Outcome.ACKED for story in history.timers.values()):,}",
        "came": f"{len(history.timer_log):,}",
        "late, the half of them": f"{late[len(late) // 2]} ms" if late else "",
        "late, the latest": f"{late[-1]} ms" if late else "",
    }
    print(f"\n{title}", *(f"  {name:<28}{figure}" for name, figure in figures.items()), sep="\n")  # noqa: T201
    for error, times in Counter(load.errors).most_common(5):
        print(f"  {times} x {error}")  # noqa: T201


@pytest.mark.skipif(SECONDS < 2 * BETWEEN_KILLS, reason="too short for a kill of each")
def test_kill_brokers_while_time_passes(tmp_path: Path) -> None:
    async def scenario() -> None:
        with cluster(tmp_path) as (names, brokers):
            load = TimeLoad(f"litemq://{names.address}")
            async with running(load, settle=SETTLE):
                kills = await kill_in_turn(brokers, SECONDS)
            report(f"brokers killed {kills} times in {SECONDS:g} s", load)
            assert time_problems(load.history) == []
            assert len(load.history.timer_log) > 50 * SECONDS

    run(scenario())
