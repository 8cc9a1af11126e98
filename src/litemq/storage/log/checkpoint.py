"""The checkpoint file: the progress of the log and its projections, in two alternating slots.

A torn write damages one slot only: each slot has a 4 KiB block of its own.

A slot (128 bytes, big-endian)::

     at  bytes  field
      0      4  magic 0x4C4D5143: "LMQC"
      4      4  crc32c over bytes 8 … 128
      8      8  counter: the slot with the higher counter is the latest
     16      8  flushed offset: everything below it is durable
     24      8  confirmed offset: everything below it may be read
     32      8  queues applied: the queue files have all entries below it
     40      8  index applied
     48      8  timers applied
     56      8  state applied
     64      8  latest snapshot: log offset of its begin record, -1 = none
     72      4  epoch
     76      4  0
     80      8  store timestamp of the last record (ms)
     88      8  written at (ms)
     96      8  log start: no segment from this offset on may be missing
    104      8  size of a segment
    112     16  0
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from litemq.format.crc import crc32c
from litemq.storage.files.disk import Disk

__all__ = ["Checkpoint", "CheckpointFile", "read_checkpoint"]

_MAGIC: Final = 0x4C4D5143
_SLOT: Final = struct.Struct(
    ">"
    "I"  # magic
    "I"  # crc
    "Q"  # counter
    "qqqqqq"  # flushed, confirmed, queues, index, timers, state
    "q"  # snapshot
    "I"  # epoch
    "4x"
    "q"  # store_timestamp
    "q"  # written_at
    "qq"  # log_start, segment_bytes
    "16x"
)
_BLOCK: Final = 4096


class Checkpoint(NamedTuple):
    """The log offsets that the log and its projections have reached."""

    flushed: int = 0
    confirmed: int = 0
    queues_applied: int = 0
    index_applied: int = 0
    timers_applied: int = 0
    state_applied: int = 0
    snapshot: int = -1
    epoch: int = 0
    store_timestamp: int = 0
    written_at: int = 0
    log_start: int = 0
    segment_bytes: int = 0


class CheckpointFile:
    """The file ``checkpoint`` of a data directory."""

    def __init__(self, disk: Disk, path: Path) -> None:
        existed = path.exists()
        self._file = disk.open(path, create=True)
        if not existed:
            disk.sync_directory(path.parent)
        self._counter, self.latest = _latest_slot(self._slots())

    @property
    def damaged_slots(self) -> list[int]:
        """The slots that were written but fail their CRC: a torn write, or a flipped bit."""
        return [slot for slot, raw in enumerate(self._slots()) if any(raw) and not _is_valid(raw)]

    def _slots(self) -> list[bytes]:
        return [self._file.read(_SLOT.size, slot * _BLOCK) for slot in (0, 1)]

    def write(self, checkpoint: Checkpoint) -> None:
        """Write ``checkpoint`` to the older slot, and sync it."""
        self._counter += 1
        tail = _SLOT.pack(_MAGIC, 0, self._counter, *checkpoint)[8:]
        raw = struct.pack(">II", _MAGIC, crc32c(tail)) + tail
        self._file.write(raw, self._counter % 2 * _BLOCK)
        self._file.sync()
        self.latest = checkpoint


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Read the checkpoint of a store that may be open. ``None`` if no slot is valid."""
    raw = path.read_bytes()
    return _latest_slot([raw[slot * _BLOCK : slot * _BLOCK + _SLOT.size] for slot in (0, 1)])[1]


def _latest_slot(slots: list[bytes]) -> tuple[int, Checkpoint | None]:
    """Return the counter and the checkpoint of the latest valid slot, or ``(0, None)``."""
    valid = [_SLOT.unpack(raw) for raw in slots if _is_valid(raw)]
    return max(((counter, Checkpoint(*fields)) for _, _, counter, *fields in valid), default=(0, None))


def _is_valid(raw: bytes) -> bool:
    return len(raw) == _SLOT.size and struct.unpack(">II", raw[:8]) == (_MAGIC, crc32c(raw[8:]))
