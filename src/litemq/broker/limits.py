"""The limits of a broker: bounds for each request of a client, and the settings of capabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from litemq.errors import InvalidArgumentError

__all__ = ["BrokerLimits", "TraceMode"]

TraceMode = Literal["off", "sampled", "all"]


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The settings of the broker's capabilities. Files and sockets have settings of their own."""

    auto_create_topics: bool = False
    default_queues: int = 4
    replicas: int = 1  # of the broker's group

    # Sending. If more bytes than this wait for the disk of this broker, it refuses sends.
    max_unconfirmed_bytes: int = 128 << 20
    # If more bytes than this wait for the other replicas, a master refuses sends of each level. The
    # state of these records is in memory, and a follower gets the hot tail, which has this size,
    # without reading the disk.
    max_unreplicated_bytes: int = 256 << 20
    # 0: no quota.
    quota_messages_per_s: int = 0
    quota_bytes_per_s: int = 0

    # Reading.
    max_pull_messages: int = 10_000
    max_pull_bytes: int = 4 << 20
    max_pull_wait_ms: int = 60_000
    max_waiting_pulls: int = 4_096  # of one client
    max_found: int = 1_000

    # The trace: of no message, of one in ``trace_one_in``, or of all.
    trace: TraceMode = "off"
    trace_one_in: int = 100

    # Groups. A session ends when its member is silent for the timeout, or does not reconnect within
    # the grace period.
    session_timeout_ms: int = 5_000  # of members that name none
    min_session_timeout_ms: int = 100
    max_session_timeout_ms: int = 600_000
    reconnect_grace_ms: int = 500
    gather_ms: int = 1_000  # after a restart, in which members reclaim their queues
    max_group_members: int = 10_000  # for one topic
    max_memberships: int = 4_096  # of one client
    max_member_chars: int = 255

    # Leases.
    min_lease_ms: int = 10
    max_lease_ms: int = 12 * 3_600_000
    max_in_flight: int = 100_000  # of one group and topic

    # How far a queue may run ahead of its slowest group, unless its topic has a setting.
    max_backlog: int = 10_000_000

    # Rescheduled timers, and batches of timers that were cancelled within a year.
    max_moved_timers: int = 1_000_000
    max_cancelled_batches: int = 100_000

    # Halves that are not decided or not published yet. A batch of a job that is idle for the
    # lifetime is rolled back.
    half_lifetime_ms: int = 24 * 3_600_000
    max_half_bytes: int = 64 << 30
    max_transactions: int = 100_000
    max_transaction_messages: int = 1_000  # of one producer's transaction
    max_half_runs: int = 1_000_000  # the halves of one request are usually one run
    max_winners: int = 50_000  # of one batch
    max_plan_bytes: int = 1 << 20  # stored with a decision
    max_query_bytes: int = 200  # the name of a query

    # Jobs: each takes some hundred bytes of memory, and its body.
    max_jobs: int = 5_000_000
    max_job_bytes: int = 2 << 30  # of all together

    # Check-back of undecided transactions: the first check, the interval, and their number.
    check_after_ms: int = 60_000
    check_every_ms: int = 60_000
    max_checks: int = 15
    max_check_pollers: int = 10_000  # producers that wait for checks

    def __post_init__(self) -> None:
        if self.trace not in ("off", "sampled", "all"):
            raise InvalidArgumentError(f"trace={self.trace!r}: choose off, sampled or all")
        if self.trace_one_in < 1:
            raise InvalidArgumentError(f"trace_one_in={self.trace_one_in}: choose 1 or more")
        if not 1 <= self.default_queues <= 65_536:
            raise InvalidArgumentError(f"default_queues={self.default_queues}: choose 1 … 65536")
        for name in ("quota_messages_per_s", "quota_bytes_per_s"):
            if getattr(self, name) < 0:
                raise InvalidArgumentError(f"{name}={getattr(self, name)}: choose 0 (no quota) or more")
