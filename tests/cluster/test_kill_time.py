"""Two brokers that are killed in turn, again and again, while timers fire, cron jobs tick and
transactions are decided: nothing is lost, twice, early, or seen too soon.

``LITEMQ_CHAOS_SECONDS`` sets the duration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from litemq.net.event_loop import run
from support.chaos_cluster import BETWEEN_KILLS, cluster, kill_in_turn
from support.chaos_length import JUDGES_TIME, SECONDS, SETTLE_S
from support.history import Outcome
from support.time_chaos import TimeChaos, running
from support.time_history import Fate, TimeHistory, TimerHistory, time_problems


def report(title: str, chaos: TimeChaos) -> None:
    history = chaos.history
    stored_at = dict(history.timer_log)
    late = sorted(
        stored_at[name] - max(entry.possible_dues) for name, entry in history.timers.items() if name in stored_at
    )
    figures = {
        "timers": f"{len(history.timers):,}",
        "of them acked": f"{sum(entry.outcome is Outcome.ACKED for entry in history.timers.values()):,}",
        "came": f"{len(history.timer_log):,}",
        "cancelled, moved": f"{_fates(history, lambda entry: entry.cancelled)}, {_fates(history, _last_move)}",
        "of cancelled batches": f"{sum(entry.never_after is not None for entry in history.timers.values()):,}",
        "on their way then": f"{sum(entry.is_between for entry in history.timers.values()):,}",
        "late, the half of them": f"{late[len(late) // 2]} ms" if late else "",
        "late, the latest": f"{late[-1]} ms" if late else "",
        "ticks": f"{len(history.tick_log):,} of {sum(len(entry.expected) for entry in history.jobs.values()):,}",
        "transactions": f"{len(history.transactions):,}",
        "of them count": f"{sum(entry.truth is True for entry in history.transactions.values()):,}",
        "their messages": f"{len(history.transaction_log):,}, seen {len(history.sightings):,} times",
    }
    print(f"\n{title}", *(f"  {name:<28}{figure}" for name, figure in figures.items()), sep="\n")  # noqa: T201
    for error, times in Counter(chaos.errors).most_common(5):
        print(f"  {times} x {error}")  # noqa: T201


def _fates(history: TimeHistory, of: Callable[[TimerHistory], Fate | None]) -> str:
    return "/".join(
        str(sum(of(entry) is fate for entry in history.timers.values()))
        for fate in (Fate.DONE, Fate.TOO_LATE, Fate.UNKNOWN)
    )


def _last_move(entry: TimerHistory) -> Fate | None:
    return entry.moves[-1][1] if entry.moves else None


@pytest.mark.skipif(SECONDS < 2 * BETWEEN_KILLS, reason="too short for a kill of each")
def test_kill_brokers_while_time_passes(tmp_path: Path) -> None:
    async def scenario() -> None:
        with cluster(tmp_path) as (names, brokers):
            chaos = TimeChaos(f"litemq://{names.address}")
            async with running(chaos, settle=SETTLE_S):
                kills = await kill_in_turn(brokers, SECONDS)
            report(f"brokers killed {kills} times in {SECONDS:g} s", chaos)
            history = chaos.history
            if not JUDGES_TIME:
                history.late_within_ms = round(
                    1000 * SETTLE_S
                )  # how late is the machine's business; never, or early, is not
            assert time_problems(history) == []
            assert len(history.timer_log) > (50 * SECONDS if JUDGES_TIME else 0)

    run(scenario())
