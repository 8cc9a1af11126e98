"""State machine of an archived topic: archive and broker have every record."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from litemq.client.consuming.archive_reading import ArchiveRequest
from litemq.client.engine.selection import EVERYTHING
from litemq.clock import FakeClock
from litemq.format.arrow.batches import decode_batches
from litemq.format.limits import STORED_LIMITS
from litemq.format.messages import decode_messages
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import ArchivedThrough, Control, Queue
from litemq.spark.archive_reader import TableArchive
from litemq.spark.schema import BROKER, MESSAGE_SCHEMA
from litemq.spark.tables.opening import create_table
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey, TopicSettings
from litemq.types import Archived, Record
from support.archived import written
from support.stores import CONFIG
from support.waiting import HANG_S

QUEUES = 2


class SeamMachine(RuleBasedStateMachine):
    """One archived topic, and the expected records of each queue."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.store = self._open()
        self.topic_id = self.store.create_topic("orders", QUEUES, TopicSettings(archived=Archived.BLOCK)).topic_id
        self.location = str(self.folder / "lake")
        self.table = create_table(self.location, "parquet")
        self.batch = 0
        self.stored: dict[int, list[bytes]] = {number: [] for number in range(QUEUES)}
        self.archived = dict.fromkeys(range(QUEUES), 0)
        self.archive = TableArchive(self.location, "orders")

    def _open(self) -> DiskStore:
        return DiskStore(self.folder / "data", CONFIG, self.clock, host="here")

    def _key(self, queue_id: int) -> QueueKey:
        return QueueKey(self.topic_id, queue_id)

    def _local(self, queue_id: int, begin: int, end: int) -> bytes:
        pieces, at = [], begin
        while at < end:
            pieces.append(bytes(self.store.read_queue(self._key(queue_id), at, end - at)))
            at += len(decode_messages(pieces[-1]))
        return b"".join(pieces)

    @rule(queue_id=st.integers(0, QUEUES - 1), count=st.integers(1, 60), size=st.sampled_from([10, 900, 3000]))
    def send(self, queue_id: int, count: int, size: int) -> None:
        first = len(self.stored[queue_id])
        batch = bytearray(
            b"".join(encode_record(Record("orders", bytes(size), message_id=f"m-{first + n}")) for n in range(count))
        )
        self.store.wait_confirmed(self.store.append(batch, self.topic_id, queue_id).end, HANG_S)
        for offset in range(first, first + count):
            self.stored[queue_id].append(self._local(queue_id, offset, offset + 1))

    @rule(shares=st.tuples(*[st.floats(0, 1)] * QUEUES))
    def put_into_the_archive(self, shares: tuple[float, ...]) -> None:
        parts, archived = [], []
        for queue_id, share in enumerate(shares):
            begin, end = self.archived[queue_id], len(self.stored[queue_id])
            end = begin + round((end - begin) * share)
            if begin < end:
                rows = pa.Table.from_batches(decode_batches(self._local(queue_id, begin, end), limits=STORED_LIMITS))
                parts.append(rows.append_column(MESSAGE_SCHEMA.field(BROKER), pa.array(["here"] * rows.num_rows)))
                archived.append(Queue(topic_id=self.topic_id, queue_id=queue_id, least=begin, next=end))
                self.archived[queue_id] = end
        if parts:
            assert self.table.append(written(self.location, *parts), "app", self.batch)
            self.batch += 1
            report = ArchivedThrough(topic_id=self.topic_id, location=self.location, queues=archived, at=1)
            self.store.wait_confirmed(self.store.append_control(Control(archived_through=report)).end, HANG_S)

    @precondition(lambda machine: machine.batch > 1)
    @rule()
    def compact(self) -> None:
        """Merge all files into one, and delete the old ones immediately."""
        old = self.table.files()
        parts = []
        for queue_id, end in self.archived.items():
            if end:
                data = b"".join(self.stored[queue_id][:end])
                rows = pa.Table.from_batches(decode_batches(data, limits=STORED_LIMITS))
                parts.append(rows.append_column(MESSAGE_SCHEMA.field(BROKER), pa.array(["here"] * rows.num_rows)))
        assert self.table.replace(old, written(self.location, *parts))
        for file in old:
            (Path(self.location) / file.path).unlink()

    @rule()
    def retain(self) -> None:
        self.store.retain(max_bytes=1)

    @rule(cleanly=st.booleans(), without_database=st.booleans())
    def stop_and_start(self, cleanly: bool, without_database: bool) -> None:
        rows = [
            row.SerializeToString(deterministic=True) for row in self.store.state.rows() if not row.HasField("queue")
        ]
        self.store.wait_confirmed(self.store.log_end, HANG_S)
        if cleanly:
            self.store.close()
        else:
            self.store.abandon()
        if without_database:
            for name in ("state.db", "state.db-wal", "state.db-shm"):
                (self.folder / "data" / name).unlink(missing_ok=True)
        self.store = self._open()
        again = [
            row.SerializeToString(deterministic=True) for row in self.store.state.rows() if not row.HasField("queue")
        ]
        assert again == rows

    @invariant()
    def everything_can_be_read(self) -> None:
        if not hasattr(self, "store"):
            return
        for queue_id, stored in self.stored.items():
            key = self._key(queue_id)
            least = self.store.state.start_offsets.get(key, 0)
            assert least <= self.archived[queue_id], "nothing goes before it is archived"
            assert self.store.state.earliest(key) == 0
            wanted = ArchiveRequest("here", queue_id, self.topic_id, 0, least, 1 << 16, EVERYTHING)
            cold = b"".join(portion.records for portion in self.archive.read(wanted))
            assert cold + self._local(queue_id, least, len(stored)) == b"".join(stored)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)


SeamMachine.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestSeam = SeamMachine.TestCase
