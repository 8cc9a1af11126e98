"""``litemq bench suite cluster``: failover, planned switches and the cost of a replicated group.

Each figure has its own group: a NameServer with the embedded store and three replicas, started with
the ``litemq`` command, with their data in the temporary directory (``TMPDIR``). All servers and the
load share this machine. Bodies have 1 KiB. A run has 20 rounds of each failover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from litemq.bench.baselines.bare import bare_sync_p99, plain_loop_ns
from litemq.bench.replica_group import GroupSettings
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads.catching_up import CatchUp, WipedDisk
from litemq.bench.workloads.failover import STEPS, FailoverRounds, kill_master, stop_master, switch_master
from litemq.bench.workloads.kept_state import KINDS
from litemq.bench.workloads.promotion import Promotion
from litemq.bench.workloads.replication import Compared, Lag, Loaded

__all__ = ["figures"]

_ROUNDS: Final = 20
_STOPS: Final = 5
_SECONDS: Final = 8.0
_MEGABYTES: Final = 1_000
_QUEUES: Final = 100_000


def figures(scale: float) -> list[Figure]:
    """Return the figures of a replicated group; ``scale`` makes each measurement smaller.

    A group whose facts are in etcd belongs here, too: with further ``GroupSettings``.
    """
    rounds = max(1, round(_ROUNDS * scale))
    default, short = (FailoverRounds(rounds, scale, GroupSettings(lease_s), kill_master) for lease_s in (5.0, 2.0))
    switch = FailoverRounds(rounds, scale, GroupSettings(), switch_master)
    stop = FailoverRounds(max(1, round(_STOPS * scale)), scale, GroupSettings(), stop_master)
    return [
        *_failover("failover", "a master is killed under 10,000 msg/s, lease 5 s", default, 8),
        *_failover("short_failover", "the same, lease 2 s", short, 3.5),
        *_pause("switch", "a master hands over under 10,000 msg/s (litemq cluster switch)", switch),
        *_pause("stop", "a master is stopped under 10,000 msg/s (SIGTERM)", stop),
        *_lost((default, short, switch, stop)),
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
    first = Figure(f"{name}_p50", f"{what}: first new acknowledgement, p50", "s", rounds.first_ack, at_most(goal_s))
    slowest = Figure(f"{name}_max", "the same, maximum", "s", lambda: max(rounds.last.to_first_ack), at_most(goal_s))
    steps = [
        Figure(f"{name}_{step}", f"of the same, {described}, p50", "s", _step(rounds, step))
        for step, described in STEPS.items()
    ]
    rejoin = Figure(
        f"{name}_rejoin",
        "from the restart of the killed master until it is in sync, under that load, maximum",
        "s",
        lambda: max(rounds.last.rejoin),
        at_most(10),
    )
    return [first, slowest, *steps, rejoin]


def _step(rounds: FailoverRounds, name: str) -> Callable[[], float]:
    return lambda: rounds.step(name)


def _pause(name: str, what: str, rounds: FailoverRounds) -> list[Figure]:
    goal = at_most(1)
    return [
        Figure(f"{name}_p50", f"{what}: longest pause between two acknowledgements, p50", "s", rounds.pause, goal),
        Figure(f"{name}_max", "the same, maximum", "s", lambda: max(rounds.last.pause), goal),
    ]


def _lost(measured: tuple[FailoverRounds, ...]) -> list[Figure]:
    def count(kind: str) -> Callable[[], float]:
        return lambda: float(sum(rounds.last.lost[kind] for rounds in measured))

    lost = [
        Figure(f"lost_{kind}", f"{what} lost in all of these rounds", "", count(kind), at_most(0))
        for kind, what in zip(
            ("messages", *KINDS),
            (
                "acknowledged messages",
                "acknowledged messages of a group delivered again, or others",
                "leases",
                "timers",
                "transactions",
                "ticks of a job",
            ),
            strict=True,
        )
    ]
    twice = "messages of the load stored twice in all of these rounds"
    return [*lost, Figure("duplicates", twice, "", count("duplicates"), at_most(0))]


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
