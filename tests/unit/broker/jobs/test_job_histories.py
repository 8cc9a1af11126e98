"""Jobs under any order of changes, time, stops and crashes.

No tick runs twice or early, and none is lost except by the job's catch-up rule (I9).
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from litemq.broker.jobs.changes import PutHow
from litemq.broker.jobs.job import next_tick
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.clock import FakeClock
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.storage.disk_store import DiskStore
from litemq.types import CatchUp
from support.jobs import JobBench
from support.quick_disk import QuickDisk
from support.replicas import assert_follower_agrees

IDS = ("a", "b", "c")
SCHEDULES = ("0 * * * * *", "30 */7 * * * *", "0 0 * * * *", "@every 90s")
SPANS = st.sampled_from([0.5, 29.0, 61.0, 1000.0, 7200.0])


class CronHistories(RuleBasedStateMachine):
    """A store and its scheduler, and a model of the ticks sent so far."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="litemq-cron-"))
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.sent: dict[str, int] = {}  # message ids, and when they were stored
        self.living: dict[str, JobDefinition] = {}
        self._open()

    def _open(self) -> None:
        self.time = BrokerClock(self.clock)
        self.bench = self.runner.run(self._start())

    async def _start(self) -> JobBench:
        return JobBench(self.time, self.folder, disk=QuickDisk())

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.stop()
            assert isinstance(self.bench.store, DiskStore)
            assert_follower_agrees(self.bench.store)
            self.bench.store.abandon()
            self.runner.close()
            shutil.rmtree(self.folder)

    # What happens ---------------------------------------------------------------------------------

    @rule(job_id=st.sampled_from(IDS), schedule=st.sampled_from(SCHEDULES), catch_up=st.sampled_from(CatchUp))
    def put(self, job_id: str, schedule: str, catch_up: CatchUp) -> None:
        fields = {"expression": schedule, "catch_up": catch_up, "ordering_key": "k"}
        outcome = self.runner.run(self.bench.put(job_id, PutHow.EITHER, **fields))
        assert outcome.done in ("created", "changed", "unchanged"), outcome.problem
        slot = self.bench.jobs.find_slot(job_id)
        assert slot is not None
        self.living[job_id] = self.bench.jobs.definition(slot)
        self._confirm()

    @precondition(lambda self: self.living)
    @rule(number=st.integers(0, 2), paused=st.booleans())
    def pause(self, number: int, paused: bool) -> None:
        job_id = sorted(self.living)[number % len(self.living)]
        self.bench.changes.pause([job_id], paused=paused)
        self.living[job_id].paused = paused
        self._confirm()

    @precondition(lambda self: self.living)
    @rule(number=st.integers(0, 2))
    def delete(self, number: int) -> None:
        job_id = sorted(self.living)[number % len(self.living)]
        assert self.bench.changes.delete([job_id])[0].done == "deleted"
        del self.living[job_id]
        self._confirm()

    @rule(seconds=SPANS)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3600.0, -1.0, 1.0, 3600.0]))
    def the_wall_clock_is_set(self, seconds: float) -> None:
        self.clock.step_wall(seconds)

    @rule()
    def fire(self) -> None:
        now = self.time.wall_ms()
        self.runner.run(self.bench.fire())
        for job_id, job in self.living.items():
            row = self.bench.row(job_id)
            assert job.paused or next_tick(job, row.through) > now, "a tick that is due was neither sent nor given up"

    @rule(keeps=st.booleans())
    def crash(self, keeps: bool) -> None:
        """Crash: unconfirmed records may be lost, and the next scheduler decides again."""
        if keeps:
            self._confirm()
        self.bench.stop()
        self.bench.store.abandon()  # type: ignore[union-attr]
        self._open()

    @rule()
    def stop(self) -> None:
        self.bench.close()
        self._open()

    @rule()
    def without_state(self) -> None:
        rows = [row.SerializeToString(deterministic=True) for row in self.bench.jobs.rows()]
        self.bench.close()
        (self.folder / "state.db").unlink()
        self._open()
        assert [row.SerializeToString(deterministic=True) for row in self.bench.jobs.rows()] == rows

    @rule()
    def checkpoint(self) -> None:
        self.bench.store.checkpoint()  # type: ignore[union-attr]

    @rule()
    def retain(self) -> None:
        self.bench.messages()
        self._look()
        self.bench.store.retain(max_bytes=100_000)  # type: ignore[union-attr]

    def _confirm(self) -> None:
        self.bench.store.wait_confirmed(self.bench.store.log_end)

    # What holds -----------------------------------------------------------------------------------

    @invariant()
    def _look(self) -> None:
        if not hasattr(self, "bench"):
            return
        found: dict[str, int] = {}
        for stored in self.bench.messages():
            message_id, stamp = stored.record.message_id, stored.stamp
            assert stamp is not None
            assert message_id not in found, "a tick twice"
            found[message_id] = stamp.commitlog_offset
            job_id, _, tick = message_id.partition("@")
            assert stamp.store_timestamp >= int(tick), "a tick early"
            assert self.sent.get(message_id, stamp.commitlog_offset) == stamp.commitlog_offset, "a tick again"
        self.sent.update(found)
        for job_id in self.living:
            row = self.bench.row(job_id)
            sent = [
                int(message_id.partition("@")[2]) for message_id in self.sent if message_id.startswith(f"{job_id}@")
            ]
            assert row.through >= max(sent, default=0)


TestCronHistories = CronHistories.TestCase
TestCronHistories.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
