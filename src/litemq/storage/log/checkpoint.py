"""How far everything got: two slots, written in turn, so that one of them is always whole.

A slot (128 bytes, big-endian)::

     at  bytes  field
      0      4  magic 0x4C4D5143: "LMQC"
      4      4  crc32c over bytes 8 … 128
      8      8  counter: the slot with the higher one is the later
     16      8  flushed offset: everything below it is on disk
     24      8  confirmed offset: everything below it may be read
     32      8  queues applied: the queue files hold all entries below it
     40      8  index applied
     48      8  timers applied
     56      8  state applied
     64      8  latest snapshot: log offset of its begin, -1 = none
     72      4  epoch
     76      4  0
     80      8  store timestamp of the last record (ms)
     88      8  written at (ms)
     96      8  log start: no segment from there on may be missing
    104      8  size of a segment
    112     16  0

Each slot has a 4 KiB block of its own: a torn write of one leaves the other alone.
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
    """The store's own account of its progress."""

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
        self._counter, self.latest = _later_of(self._slots())

    @property
    def damaged_slots(self) -> list[int]:
        """The slots that were written and are not whole: a torn write, or a flipped bit."""
        return [slot for slot, raw in enumerate(self._slots()) if any(raw) and not _is_whole(raw)]

    def _slots(self) -> list[bytes]:
        return [self._file.read(_SLOT.size, slot * _BLOCK) for slot in (0, 1)]

    def write(self, checkpoint: Checkpoint) -> None:
        """Durable when this returns."""
        self._counter += 1
        tail = _SLOT.pack(_MAGIC, 0, self._counter, *checkpoint)[8:]
        raw = struct.pack(">II", _MAGIC, crc32c(tail)) + tail
        self._file.write(raw, self._counter % 2 * _BLOCK)
        self._file.sync()
        self.latest = checkpoint


def read_checkpoint(path: Path) -> Checkpoint | None:
    """What a file says that somebody else may be writing; ``None`` where no slot is whole."""
    raw = path.read_bytes()
    return _later_of([raw[slot * _BLOCK : slot * _BLOCK + _SLOT.size] for slot in (0, 1)])[1]


def _later_of(slots: list[bytes]) -> tuple[int, Checkpoint | None]:
    """The later of the slots that are whole, behind its counter; ``None`` where neither is."""
    whole = [_SLOT.unpack(raw) for raw in slots if _is_whole(raw)]
    return max(((counter, Checkpoint(*fields)) for _, _, counter, *fields in whole), default=(0, None))


def _is_whole(raw: bytes) -> bool:
    return len(raw) == _SLOT.size and struct.unpack(">II", raw[:8]) == (_MAGIC, crc32c(raw[8:]))
