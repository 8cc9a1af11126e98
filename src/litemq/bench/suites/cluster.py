"""``litemq bench suite cluster``: failover, planned switches and the cost of a replicated group.

Each figure has its own group: a NameServer and three replicas, started with the ``litemq`` command,
with their data in the temporary directory (``TMPDIR``). The cluster store is the embedded one, or
three members of etcd where the figure says so. All servers and the load share this machine. Bodies
have 1 KiB. Three runs have 21 rounds of a failover, or 9 with etcd and a lease of 5 s. Percentiles
and maxima are those of all rounds of all runs. By estimate, three runs take 45 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final

from litemq.bench.baselines.bare import bare_sync_p99, plain_loop_ns
from litemq.bench.etcd_members import why_no_etcd
from litemq.bench.replica_group import GroupSettings
from litemq.bench.suite import Figure, Goal, at_least, at_most
from litemq.bench.workloads.catching_up import CatchUp, WipedDisk
from litemq.bench.workloads.failover import (
    STEPS,
    FailoverRounds,
    Rounds,
    kill_master,
    kill_with_etcd_leader,
    stop_master,
    switch_master,
)
from litemq.bench.workloads.kept_state import KINDS
from litemq.bench.workloads.promotion import Promotion
from litemq.bench.workloads.replication import Compared, Lag, Loaded

__all__ = ["figures", "notes"]

_ROUNDS: Final = 7  # of a run
_FEWER_ROUNDS: Final = 3  # with etcd and the default lease
_STOPS: Final = 2
_KILLED: Final = "a master is killed under 10,000 msg/s"
_ETCD_MEMBERS: Final = 3
_SECONDS: Final = 8.0
_MEGABYTES: Final = 1_000
_QUEUES: Final = 100_000


def notes() -> list[str]:
    """Return why figures are left out."""
    problem = why_no_etcd()
    return [f"failovers with etcd as the cluster store: {problem}"] if problem else []


def figures(scale: float) -> list[Figure]:
    """Return the figures of a replicated group; ``scale`` makes each measurement smaller."""
    rounds = max(1, round(_ROUNDS * scale))
    default, short = (FailoverRounds(rounds, scale, GroupSettings(lease_s), kill_master) for lease_s in (5.0, 2.0))
    switch = FailoverRounds(rounds, scale, GroupSettings(), switch_master)
    stop = FailoverRounds(max(1, round(_STOPS * scale)), scale, GroupSettings(), stop_master)
    fewer = max(1, round(_FEWER_ROUNDS * scale))
    etcd, etcd_short, etcd_leader = (
        FailoverRounds(number, scale, GroupSettings(lease_s, _ETCD_MEMBERS), fault)
        for number, lease_s, fault in (
            (fewer, 5.0, kill_master),
            (rounds, 2.0, kill_master),
            (rounds, 5.0, kill_with_etcd_leader),
        )
    )
    with_etcd = (
        *_failover("etcd_failover", f"{_KILLED}, lease 5 s, etcd", etcd, 8),
        *_failover("etcd_short_failover", f"{_KILLED}, lease 2 s, etcd", etcd_short, 3.5),
        *_failover("etcd_leader_failover", f"{_KILLED} together with etcd's leader, lease 5 s", etcd_leader, 14),
    )
    return [
        *_failover("failover", f"{_KILLED}, lease 5 s", default, 8),
        *_failover("short_failover", f"{_KILLED}, lease 2 s", short, 3.5),
        *(() if why_no_etcd() else with_etcd),
        *_pause("switch", "a master hands over under 10,000 msg/s (litemq cluster switch)", switch),
        *_pause("stop", "a master is stopped under 10,000 msg/s (SIGTERM)", stop),
        *_lost((default, short, etcd, etcd_short, etcd_leader, switch, stop)),
        *_replication(max(0.3, _SECONDS * scale)),
        *_catching_up(scale),
        Figure("plain_loop", "Python only: one iteration of an empty loop", "ns", plain_loop_ns),
        Figure(
            "bare_sync_p99",
            "disk only: 12 KiB written and synced every millisecond",
            "ms",
            lambda: bare_sync_p99(max(0.3, _SECONDS * scale)),
        ),
    ]


def _failover(name: str, what: str, rounds: FailoverRounds, goal_s: float) -> list[Figure]:
    goal = at_most(goal_s)
    first, slowest = f"{what}: first new acknowledgement, p50", "the same, maximum"
    rejoin = "from the restart of the killed master until it is in sync, under that load, maximum"
    return [
        _first(rounds, f"{name}_p50", first, lambda found: median(found.to_first_ack), goal),
        _of(rounds, f"{name}_max", slowest, lambda found: max(found.to_first_ack), goal),
        *(_step(rounds, name, step) for step in STEPS),
        _of(rounds, f"{name}_rejoin", rejoin, lambda found: max(found.rejoin), at_most(10)),
    ]


def _step(rounds: FailoverRounds, name: str, step: str) -> Figure:
    return _of(rounds, f"{name}_{step}", f"of the same, {STEPS[step]}, p50", lambda found: median(found.steps[step]))


def _pause(name: str, what: str, rounds: FailoverRounds) -> list[Figure]:
    goal, pause = at_most(1), f"{what}: longest pause between two acknowledgements, p50"
    return [
        _first(rounds, f"{name}_p50", pause, lambda found: median(found.pause), goal),
        _of(rounds, f"{name}_max", "the same, maximum", lambda found: max(found.pause), goal),
    ]


def _of(
    rounds: FailoverRounds, name: str, what: str, of: Callable[[Rounds], float], goal: Goal | None = None
) -> Figure:
    """Return a figure of rounds that another figure has measured, in seconds."""
    return Figure(name, what, "s", lambda: of(rounds.last), goal, lambda _runs: of(rounds.all))


def _first(rounds: FailoverRounds, name: str, what: str, of: Callable[[Rounds], float], goal: Goal) -> Figure:
    """Return a figure that measures the rounds of a run."""

    def measure() -> float:
        rounds.measure()
        return of(rounds.last)

    return Figure(name, what, "s", measure, goal, lambda _runs: of(rounds.all))


def _lost(measured: tuple[FailoverRounds, ...]) -> list[Figure]:
    def counted(name: str, what: str, kind: str) -> Figure:
        return Figure(
            name,
            f"{what} in all of these rounds",
            "",
            lambda: float(sum(rounds.last.lost[kind] for rounds in measured)),
            at_most(0),
            sum,
        )

    lost = (
        "acknowledged messages",
        "acknowledged messages of a group delivered again, or others",
        "leases",
        "timers",
        "transactions",
        "ticks of a job",
    )
    return [
        *(counted(f"lost_{kind}", f"{what} lost", kind) for kind, what in zip(("messages", *KINDS), lost, strict=True)),
        counted("duplicates", "messages of the load stored twice", "duplicates"),
    ]


def _replication(seconds: float) -> list[Figure]:
    compared, lag = Compared(seconds), Lag(seconds)

    def disk() -> Loaded:
        return compared.last["disk"]

    def replicas() -> Loaded:
        return compared.last["replicas"]

    return [
        Figure(
            "disk",
            "1,024 tasks that await each send, single broker, level disk",
            "msg/s",
            lambda: compared.rate("disk"),
        ),
        Figure("disk_p99", "p99 latency of the same", "ms", lambda: disk().p99_ms),
        Figure("disk_cpu", "broker's CPU per message of the same", "µs", lambda: disk().cpu_us),
        Figure("disk_steady_p99", "end to end, p99, steady 2,000 msg/s", "ms", lambda: disk().steady_p99_ms),
        Figure(
            "replicas",
            "1,024 tasks that await each send, three replicas, level replicas",
            "msg/s",
            lambda: compared.rate("replicas"),
        ),
        Figure("replicas_p99", "p99 latency of the same", "ms", lambda: replicas().p99_ms),
        Figure("replicas_cpu", "CPU of all three per message of the same", "µs", lambda: replicas().cpu_us),
        Figure("replicas_steady_p99", "end to end, p99, steady 2,000 msg/s", "ms", lambda: replicas().steady_p99_ms),
        Figure(
            "replicas_over_disk",
            "replicas / disk",
            "×",
            lambda: compared.ratio(lambda loaded: loaded.rate),
            at_least(0.5),
        ),
        Figure(
            "p99_over_disk",
            "replicas_p99 / disk_p99",
            "×",
            lambda: compared.ratio(lambda loaded: loaded.p99_ms),
            at_most(3),
        ),
        Figure(
            "steady_p99_over_disk",
            "replicas_steady_p99 / disk_steady_p99",
            "×",
            lambda: compared.ratio(lambda loaded: loaded.steady_p99_ms),
            at_most(3),
        ),
        Figure("lag_p50", "the slowest follower behind its master's disk, 10,000 msg/s, p50", "ms", lag.p50_ms),
        Figure("lag_p99", "the same, p99", "ms", lambda: lag.ms(99)),
        Figure("lag_bytes_p50", "messages on the master's disk that are not confirmed, p50", "kB", lambda: lag.kb(50)),
        Figure("lag_bytes_p99", "the same, p99", "kB", lambda: lag.kb(99)),
    ]


def _catching_up(scale: float) -> list[Figure]:
    megabytes = max(20.0, _MEGABYTES * scale)
    queues = max(100, round(_QUEUES * scale))
    catch_up = CatchUp(megabytes)
    return [
        Figure(
            "catch_up",
            f"a follower that lacks {megabytes:g} MB, from listening until it is in sync",
            "MB/s",
            catch_up.rate,
            at_least(100),
        ),
        Figure("catch_up_cpu", "MB of the same per second of the follower's CPU", "MB/s", lambda: catch_up.per_cpu_s),
        Figure("copy", "the same with a wiped disk, which copies the log", "MB/s", WipedDisk(megabytes / 2).rate),
        Figure(
            "promotion",
            f"from the election of a follower with {queues} queues until it serves clients",
            "ms",
            Promotion(queues).milliseconds,
            at_most(500),
        ),
    ]
