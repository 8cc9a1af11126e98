"""``litemq bench suite time``: timers, cron jobs and transactions.

Each measurement has its own broker, started with the ``litemq`` command, with its data in the
temporary directory (``TMPDIR``). The load comes through the public client, from this process and
one or two more. Timers have bodies of 128 bytes, other messages of 1 KiB.
"""

from __future__ import annotations

from litemq.bench.baselines.bare import bare_sync_p99, plain_loop_ns
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads.jobs import JobsAtScale
from litemq.bench.workloads.timers import TimersAtScale
from litemq.bench.workloads.transactions import CommittedTransactions

__all__ = ["figures"]


def figures(scale: float) -> list[Figure]:
    """Return the figures of scheduled work; ``scale`` makes each measurement smaller."""
    timers = TimersAtScale(scale)
    jobs = JobsAtScale(scale)
    transactions = CommittedTransactions(scale)
    return [
        Figure(
            "timer_insert",
            "timers for the next year, sent in batches by two processes, level disk",
            "timers/s",
            timers.insert_rate,
            at_least(100_000),
        ),
        Figure(
            "timer_late_p50",
            "median lateness with 10M pending, 5,000 due per second, 20,000 normal msg/s",
            "ms",
            lambda: timers.last.late.p50_ms,
            at_most(10),
        ),
        Figure("timer_late_p99", "p99 of the same", "ms", lambda: timers.last.late.p99_ms, at_most(50)),
        Figure("timer_late_max", "maximum of the same", "ms", lambda: timers.last.late.max_ms),
        Figure(
            "beside_timers_p99",
            "p99 latency of normal messages meanwhile, from send to async for",
            "ms",
            lambda: timers.last.normal_p99_ms,
        ),
        Figure(
            "timer_memory",
            "maximum resident memory of the broker",
            "GB",
            lambda: timers.last.resident_bytes / 1e9,
            at_most(1.5),
        ),
        Figure(
            "timer_disk",
            "disk space per pending timer, without the log",
            "bytes",
            lambda: timers.last.derived_bytes_each,
        ),
        Figure("job_load", "time to import a million cron jobs", "s", jobs.load_time, at_most(120)),
        Figure(
            "job_minute",
            "time until 50,000 of a million jobs, due at once, have sent their message",
            "s",
            lambda: jobs.last.sent_within_s,
            at_most(5),
        ),
        Figure(
            "job_quiet_p99",
            "p99 latency of 5,000 normal msg/s while no job is due",
            "ms",
            lambda: jobs.last.quiet_p99_ms,
        ),
        Figure(
            "job_busy_p99",
            "the same in the ten seconds around such a minute / job_quiet_p99",
            "×",
            lambda: jobs.last.slower,
            at_most(2),
        ),
        Figure("job_memory", "resident memory of the broker with them", "GB", lambda: jobs.last.resident_bytes / 1e9),
        Figure(
            "transactions",
            "half and commit, one client process, 512 in flight, level disk",
            "tx/s",
            transactions.rate,
            at_least(5_000),
        ),
        Figure("transaction_p99", "p99 latency of the same", "ms", lambda: transactions.p99_ms),
        Figure("plain_loop", "Python only: one iteration of an empty loop", "ns", plain_loop_ns),
        Figure(
            "bare_sync_p99",
            "disk only: 12 KiB written and synced every millisecond",
            "ms",
            lambda: bare_sync_p99(max(0.3, 8 * scale)),
        ),
    ]
