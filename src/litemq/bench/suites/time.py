"""``litemq bench suite time``: timers, cron jobs and transactions, as users meet them.

A broker of its own for each measurement, started by the command that users type, its data below the temporary directory (``TMPDIR``); the load comes
through the public client, from this process and one or two more. Timers have bodies of 128 bytes, other messages of 1 KiB.
"""

from __future__ import annotations

from litemq.bench.baselines.bare import bare_sync_p99, plain_loop_ns
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads.jobs import JobsAtScale
from litemq.bench.workloads.timers import TimersAtScale
from litemq.bench.workloads.transactions import CommittedTransactions

__all__ = ["figures"]


def figures(scale: float) -> list[Figure]:
    """What is promised of time; ``scale`` makes each measurement smaller."""
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
            "10M pending, 5,000 due each second, 20,000 normal msg/s: late by",
            "ms",
            lambda: timers.last.late.p50_ms,
            at_most(10),
        ),
        Figure("timer_late_p99", "99 of 100 of those by at most", "ms", lambda: timers.last.late.p99_ms, at_most(50)),
        Figure("timer_late_max", "the latest of them", "ms", lambda: timers.last.late.max_ms),
        Figure("beside_timers_p99", "normal messages meanwhile, from send to async for", "ms", lambda: timers.last.normal_p99_ms),
        Figure("timer_memory", "resident memory of the broker, at most", "GB", lambda: timers.last.resident_bytes / 1e9, at_most(1.5)),
        Figure("timer_disk", "files besides the log for each pending timer", "bytes", lambda: timers.last.derived_bytes_each),
        Figure("job_load", "a million cron jobs imported", "s", jobs.load_time, at_most(120)),
        Figure(
            "job_minute",
            "50,000 jobs of a million are due: the last has sent its message within",
            "s",
            lambda: jobs.last.sent_within_s,
            at_most(5),
        ),
        Figure("job_quiet_p99", "normal messages, 5,000 a second, when no job is due", "ms", lambda: jobs.last.quiet_p99_ms),
        Figure("job_busy_p99", "the same in the ten seconds of such a minute, against that", "×", lambda: jobs.last.slower, at_most(2)),
        Figure("job_memory", "resident memory of the broker with them", "GB", lambda: jobs.last.resident_bytes / 1e9),
        Figure(
            "transactions", "half and commit, one client process, 512 under way, level disk", "tx/s", transactions.rate, at_least(5_000)
        ),
        Figure("transaction_p99", "99 of 100 of those are committed within", "ms", lambda: transactions.p99_ms),
        Figure("plain_loop", "nothing but Python: one turn of an empty loop", "ns", plain_loop_ns),
        Figure(
            "bare_sync_p99",
            "nothing but the disk: 12 KiB written and synced, each millisecond",
            "ms",
            lambda: bare_sync_p99(max(0.3, 8 * scale)),
        ),
    ]
