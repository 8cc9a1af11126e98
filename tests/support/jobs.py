"""Jobs over their own store, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litemq.broker.jobs.changes import JobChanges, PutHow
from litemq.broker.jobs.scheduler import JobScheduler
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.clock import Clock
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto.control_pb2 import JobRow
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import JobOutcome
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey
from litemq.types import StoredRecord

SMALL = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=0
)


class JobBench(QueueListener):
    """A store with its job scheduler and job changes. Create it on the event loop."""

    def __init__(
        self,
        clock: Clock,
        directory: Path | None = None,
        *,
        disk: Disk = DISK,
        max_jobs: int = 1000,
        max_bytes: int = 1 << 30,
    ) -> None:
        self.clock = clock
        self.store = (
            MemoryStore(clock) if directory is None else DiskStore(directory, SMALL, clock, disk=disk, host="here")
        )
        self.topic_id = self.store.create_topic("reports", 2).topic_id
        self.jobs = self.store.state.parts.jobs
        context = BrokerContext.create(self.store, clock, BrokerLimits(max_jobs=max_jobs, max_job_bytes=max_bytes))
        context.events.add(self)
        self.alarms = context.alarms
        self.grown: list[QueueKey] = []
        self.scheduler = JobScheduler(context)
        self.changes = JobChanges(context, self.scheduler)

    def on_append(self, keys: list[QueueKey], end: int) -> None:  # noqa: ARG002
        self.grown += keys

    async def put(self, job_id: str = "j", how: PutHow = PutHow.CREATE, **fields: Any) -> JobOutcome:
        """Put one job."""
        fields = {
            "topic": "reports",
            "body": b"x",
            **({} if "every_ms" in fields else {"expression": "0 * * * * *"}),
            **fields,
        }
        (outcome,) = await self.changes.put([JobDefinition(id=job_id, **fields)], how, dry_run=False)
        return outcome

    async def fire(self) -> int:
        """Send the due ticks; return their number."""
        return await self.scheduler.fire_due()

    def row(self, job_id: str = "j") -> JobRow:
        slot = self.jobs.find_slot(job_id)
        assert slot is not None
        return self.jobs.row_at(slot)

    def messages(self) -> list[StoredRecord]:
        """Return all sent messages in the order of the log."""
        self.store.wait_confirmed(self.store.log_end)
        found: list[StoredRecord] = []
        for queue_id in range(2):
            key = QueueKey(self.topic_id, queue_id)
            data = bytes(self.store.read_queue(key, self.store.state.start_offsets.get(key, 0), 100_000, 1 << 30))
            found += [
                decode_record(data, at, limits=STORED_LIMITS) for at in scan(data, limits=STORED_LIMITS).starts.tolist()
            ]
        return sorted(found, key=lambda stored: 0 if stored.stamp is None else stored.stamp.commitlog_offset)

    def ids(self) -> list[str]:
        return [stored.record.message_id for stored in self.messages()]

    def ack(self, group: str = "g") -> None:
        """Acknowledge all messages for the group."""
        keys = [QueueKey(self.topic_id, queue_id) for queue_id in range(2)]
        self.store.commit_offsets(group, [(key, self.store.state.end_offsets.get(key, 0)) for key in keys])

    def stop(self) -> None:
        self.scheduler.close()
        self.alarms.close()

    def close(self) -> None:
        self.stop()
        self.store.close()
