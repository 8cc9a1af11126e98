"""The store of a replica: it follows its master's log, or is the master and writes its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from litemq.errors import (
    CorruptStoreError,
    InvalidArgumentError,
    LiteMQError,
    LogDivergedError,
    NotConfirmedError,
    OffsetOutOfRangeError,
    StorageError,
    StoreFailedError,
)
from litemq.format.crc import crc32c
from litemq.proto.control_pb2 import Control, EpochStarted
from litemq.storage.batches.batch import control_batch
from litemq.storage.disk_store import DiskStore
from litemq.storage.following import LogFollower
from litemq.storage.log.chunks import Chunk, check_chunk, read_chunk
from litemq.storage.log.confirmation import GroupConfirmation
from litemq.storage.log.epochs import Epoch
from litemq.storage.log.flush import OnFlushed
from litemq.storage.log.repair import Stretch, read_stretch
from litemq.storage.log_repair import LogRepair
from litemq.storage.projections.replay import decode_controls
from litemq.storage.store import Appended
from litemq.storage.store_parts import StoreParts

__all__ = ["GIVE_UP", "OUTDATED", "ReplicaStore"]

# The way out for a replica that stops because its log is not its master's.
GIVE_UP: Final = (
    "Keep its data directory: the master may be the one that lacks messages. Compare the log ends in `litemq cluster "
    "status`. If the master's log is the right one, move the directory away and start with an empty one: it copies the "
    "master's"
)
# What a member of the in-sync set hears whose data directory lacks messages that it had.
OUTDATED: Final = (
    "the data directory is older than this replica was: its log is that of the group up to offset {end}, but it had "
    "everything below {confirmed}. Start the other replicas. If this one still stays out, keep its directory, and "
    "start it with an empty one"
)
_LOG = logging.getLogger(__name__)


class ReplicaStore(DiskStore):
    """A data directory of a replicated group.

    It opens as a follower. ``begin_writing`` makes it the master of an epoch, and ``stop_writing``
    a follower again. A follower writes no record of its own: it appends those of its master with
    ``append_raw``. The group decides what is confirmed, through ``confirmation``.
    """

    def _open(self, open_directory: Callable[..., StoreParts]) -> None:
        self._open_directory = partial(open_directory, is_replica=True)
        self._on_failure: Callable[[str], object] = lambda _reason: None
        self.has_lease: Callable[[], bool] = lambda: True  # set by those who renew it
        self.bytes_cut = 0  # since this process opened the directory
        self._open_as_follower()

    def _open_as_follower(self) -> None:
        super()._open(self._open_directory)
        self._follower = LogFollower(self._parts)
        self._log_repair = LogRepair(self._parts, self._reader.repair)
        self._log.on_failure = self._on_failure
        self.confirmation = cast("GroupConfirmation", self._parts.confirmation)

    def on_failure(self, call: Callable[[str], object]) -> None:
        """Call ``call(reason)``, from any thread, if writing stops for good before ``close``."""
        self._on_failure = call
        super().on_failure(call)

    def _write_last_snapshot(self) -> None:
        """Write none: a follower writes no record, and a master cannot wait for its followers."""

    # Facts ---------------------------------------------------------------------------------------

    @property
    def store_id(self) -> bytes:
        """The id by which the group knows this data directory."""
        return self._parts.files.store_id

    @property
    def follows(self) -> bool:
        """Whether the store appends only what a master has written."""
        return self._parts.follows

    @property
    def is_replicated(self) -> bool:
        """Whether a replicated group decides what is confirmed."""
        return True

    @property
    def replica_refusal(self) -> LiteMQError | None:
        """Why records of durability ``replicas`` are refused now; ``None``: they are not."""
        return self.confirmation.refusal

    @property
    def in_sync(self) -> int:
        """How many replicas have on their disks what is confirmed now."""
        return self.confirmation.in_sync

    @property
    def not_in_sync(self) -> str:
        """The names of the group's other replicas, for messages."""
        return self.confirmation.not_in_sync

    @property
    def lease_refusal(self) -> LiteMQError | None:
        """Why this master may not acknowledge records that it has; ``None``: it may."""
        if self.has_lease():
            return None
        return NotConfirmedError(
            "the record was written, but the lease of this master is over: another one may not have it"
        )

    @property
    def disk_refusal(self) -> str:
        """Why producers are refused while the disk is nearly full; empty: they are not."""
        return self._parts.disk_refusal or ""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 if there is none."""
        return self._parts.files.last_epoch

    @property
    def begun_epoch(self) -> int:
        """The highest epoch that this store may have begun: a power cut may lose its records."""
        return max(self._parts.files.begun_epoch, self.last_epoch)

    @property
    def epochs(self) -> list[Epoch]:
        """The epochs that have records, rising."""
        return self._parts.files.recorded_epochs()

    @property
    def confirm_epoch(self) -> int:
        """The epoch of the last confirmed record, 0 if there is none."""
        confirmed = self.confirm_offset
        return max((epoch.number for epoch in self.epochs if epoch.start_offset < confirmed), default=0)

    @property
    def log_start(self) -> int:
        """The log offset of the oldest retained record."""
        return self._log.start

    @property
    def segment_bytes(self) -> int:
        """The size of a segment, which is the same on all replicas."""
        return self._parts.config.segment_bytes

    def is_unclean_from(self, offset: int) -> bool:
        """Return whether an epoch that begins at ``offset`` or later follows an unclean election.

        The first record of an epoch says so. It may wait for the disk.
        """
        starts = [epoch.start_offset for epoch in self.epochs if epoch.start_offset >= max(offset, self.log_start)]
        return any(
            control.epoch_started.unclean
            for start in starts
            for _, control in decode_controls(check_chunk(*self.read_chunk(start, 1)))
        )

    def checksum_at(self, offset: int) -> int | None:
        """Return the CRC of the record at ``offset``; ``None`` if it cannot be read, or retention
        has dropped it. It may wait for the disk.
        """
        try:
            return crc32c(self.read_chunk(offset, 1).data)
        except (StorageError, OffsetOutOfRangeError):
            return None

    # Shipping ------------------------------------------------------------------------------------

    def on_appended(self, call: Callable[[], object] | None) -> None:
        """Call ``call()`` after each append, in the thread that appends. ``None``: call nothing."""
        self._parts.on_appended = call

    def read_chunk(self, offset: int, max_bytes: int) -> Chunk:
        """Read the next records for a follower whose log ends at ``offset``. See ``read_chunk``.

        They may be unconfirmed, or not even flushed. A damaged record is not shipped.

        Raises:
            CorruptStoreError: The record at ``offset`` is damaged.
            OffsetOutOfRangeError: ``offset`` is inside a record.
        """
        try:
            return self._read_chunk(offset, max_bytes)
        except CorruptStoreError:
            self._log_repair.note(offset)  # it reads the segment
            raise

    def _read_chunk(self, offset: int, max_bytes: int) -> Chunk:
        try:
            return read_chunk(self._log, self._parts.files.epochs.entries, offset, max_bytes)
        except OSError as error:
            raise StorageError(f"cannot read the log at offset {offset}: {error}") from error

    def read_hot_chunk(self, offset: int, max_bytes: int) -> Chunk | None:
        """Read as ``read_chunk`` does if that takes no time.

        Return ``None`` if it needs the disk, or if the record at ``offset`` is damaged.
        """
        if not self.is_hot(offset):
            return None
        try:
            return self._read_chunk(offset, max_bytes)
        except CorruptStoreError:
            return None

    def read_cold_chunk(self, offset: int, max_bytes: int) -> asyncio.Future[Chunk]:
        """Read as ``read_chunk`` does, in a thread. Only for the event loop."""
        return self._reader.in_thread(partial(self.read_chunk, offset, max_bytes))

    # Repair --------------------------------------------------------------------------------------

    def damaged_stretches(self) -> list[Stretch]:
        """Return the damaged stretches of the log that are known, in order.

        Their records are not served. It may wait for the disk.
        """
        return self._log_repair.stretches()

    def read_raw(self, log_offset: int) -> bytes:
        """Read a record. If it is damaged, note the damage for the repair, and raise."""
        try:
            return super().read_raw(log_offset)
        except CorruptStoreError as error:
            self._parts.damage.add(error)
            raise

    def search_damage(self, begin: int, max_bytes: int) -> int:
        """Check about ``max_bytes`` of the log from ``begin`` on. See ``LogRepair.search``."""
        return self._log_repair.search(begin, max_bytes)

    def read_stretch(self, begin: int, end: int) -> bytes:
        """Read the bytes of a stretch that is damaged in another replica. See ``read_stretch``."""
        return read_stretch(self._log, Stretch(begin, end))

    def repair(self, begin: int, data: bytes) -> None:
        """Replace the damaged stretch at ``begin`` by ``data``, the bytes of another replica.

        Then its records are served again. It may wait for the disk.

        Raises:
            RecordFormatError: The bytes do not fit the stretch. Nothing was written.
        """
        self._log_repair.repair(begin, data)

    # Following -----------------------------------------------------------------------------------

    def append_raw(self, begin: int, data: bytes) -> int:
        """Append a master's records. See ``LogFollower.append``."""
        if not self._parts.follows:
            raise InvalidArgumentError("a master appends no records of another one: call stop_writing first")
        return self._follower.append(begin, data)

    def cut(self, offset: int) -> None:
        """Remove the records from ``offset`` on, durably, and open the store again.

        They are kept in ``cut-off-…``. No projection on disk has them, so nothing else is undone.

        Raises:
            LogDivergedError: Records below the confirm offset would be lost.
            StoreFailedError: The log could not be cut, such as on a full disk.
        """
        if not self._parts.follows:
            raise InvalidArgumentError("a master's log is not cut: call stop_writing first")
        if offset < self.confirm_offset:
            raise LogDivergedError(
                f"the log differs from its master's from offset {offset} on, but everything below "
                f"{self.confirm_offset} is confirmed: nothing is cut off, and this replica stops. {GIVE_UP}"
            )
        if offset >= self._log.end:
            return
        before = self._log.end
        self._stop_threads()
        self._parts.state_writer.close()
        try:
            size = self._parts.files.cut(offset)
        except (StorageError, OSError) as error:
            self._log.fail(f"the end of the log could not be cut off at {offset}: {error}")
            self._on_failure(str(self._log.failure))  # the log itself calls nothing now
            raise StoreFailedError(self._log.failure) from error
        self.bytes_cut += size
        _LOG.warning("the log differs from its master's: cut off %d … %d and kept a copy", offset, before)
        self._open_as_follower()

    def when_replicated(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed`` as ``when_confirmed`` does, or with an error if too few replicas
        are in sync.
        """
        self.confirmation.when_replicated(offset, on_confirmed)

    def when_received(self, offset: int, on_received: OnFlushed) -> None:
        """Call ``on_received`` once the in-sync set has everything below ``offset`` in memory."""
        self.confirmation.when_received(offset, on_received)

    # Writing -------------------------------------------------------------------------------------

    def begin_writing(self, epoch: int, *, unclean: bool = False) -> Appended:
        """Begin ``epoch`` as its master: from now on, this store appends its own records.

        The first one names the epoch and this store. Nothing may be confirmed before that record
        is. ``unclean``: this log may lack confirmed records.
        """
        parts, files = self._parts, self._parts.files
        with parts.writing:
            if not parts.follows or epoch <= self.begun_epoch:
                raise InvalidArgumentError(f"epoch {epoch} cannot begin: epoch {self.begun_epoch} has begun")
            control = Control(epoch_started=EpochStarted(epoch=epoch, store_id=self.store_id, unclean=unclean))
            sizes = control_batch(control, self._clock.wall_ms()).columns.sizes
            files.begin_epoch(epoch, int(self._log.allocate(sizes)[0]), self.store_id.hex())
            parts.follows = False
            self.confirmation.resume()
            try:
                return self.append_control(control)
            except BaseException:
                parts.follows = True
                raise

    def stop_writing(self, reason: LiteMQError) -> None:
        """Follow again. Waiters for a confirmation get a ``NotConfirmedError`` with ``reason``.

        Only for the event loop.
        """
        with self._parts.writing:
            self._parts.follows = True
        self.confirmation.hold()  # a master that was alone confirmed what it flushed; a follower does not
        self.confirmation.refuse(reason)
