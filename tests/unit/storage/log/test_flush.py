"""Group commit: each waiter is completed once, and waiters share syncs."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import StoreFailedError
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.log import flush
from litemq.storage.log.log_directory import LogDirectory
from support.logs import append
from support.waiting import HANG_S

CONFIG = StoreConfig(segment_bytes=1 << 20, max_record_bytes=4096)


class _SlowDisk(Disk):
    """A disk whose syncs wait until the test releases them."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.syncs = 0
        self.broken = False

    def fsync(self, file: OpenFile) -> None:
        self.gate.wait(HANG_S)
        self.syncs += 1
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fsync(file)


def _opened(folder: Path, disk: Disk) -> LogDirectory:
    """Open a directory with its first segment, whose creation syncs, too."""
    directory = LogDirectory(folder, CONFIG, FakeClock(), disk=disk)
    append(directory, [b"first"])
    directory.flusher.wait(directory.log.end, HANG_S)
    return directory


def test_many_waiters_share_one_sync(tmp_path: Path) -> None:
    disk = _SlowDisk()
    directory = _opened(tmp_path, disk)

    async def one(number: int) -> int:
        append(directory, [bytes([number])])
        end = directory.log.end
        await directory.confirmation.confirmed(end)
        assert directory.flusher.flushed >= end
        return end

    async def main() -> list[int]:
        disk.gate.clear()
        waiting = asyncio.gather(*(one(n) for n in range(50)))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        before = disk.syncs
        disk.gate.set()
        ends = await waiting
        # The first sync may have begun with the first record; the second covers all others.
        assert disk.syncs - before <= 2
        return ends

    ends = asyncio.run(main())
    assert ends == sorted(ends)
    directory.close()


def test_when_the_disk_fails_every_waiter_gets_the_error(tmp_path: Path) -> None:
    disk = _SlowDisk()
    directory = _opened(tmp_path, disk)

    async def main() -> None:
        disk.broken = True
        append(directory, [b"x"])
        results = await asyncio.gather(
            *(directory.confirmation.confirmed(directory.log.end) for _ in range(5)), return_exceptions=True
        )
        assert [type(result) for result in results] == [StoreFailedError] * 5
        with pytest.raises(StoreFailedError, match="fsync failed"):
            await directory.confirmation.confirmed(directory.log.end)

    asyncio.run(main())
    directory.close()


def test_a_cancelled_waiter_is_harmless(tmp_path: Path) -> None:
    disk = _SlowDisk()
    directory = _opened(tmp_path, disk)

    async def main() -> None:
        disk.gate.clear()
        append(directory, [b"x"])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(directory.confirmation.confirmed(directory.log.end), 0.05)
        with pytest.raises(TimeoutError, match="not flushed within"):
            directory.flusher.wait(directory.log.end, 0.01)
        disk.gate.set()
        await directory.confirmation.confirmed(directory.log.end)

    asyncio.run(main())
    directory.close()


def test_closing_flushes_the_remaining_bytes(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path, CONFIG, FakeClock())
    append(directory, [b"x"] * 10)
    directory.close()
    assert directory.flusher.flushed == directory.log.end


@pytest.mark.parametrize("disk", [Disk(), _SlowDisk()], ids=["c", "python"])
def test_nothing_is_confirmed_after_the_log_has_failed(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "LINGER_S", HANG_S)
    directory = _opened(tmp_path, disk)
    flushed = directory.flusher.flushed
    append(directory, [b"lingers"])
    directory.log.fail("another sync failed")
    with pytest.raises(StoreFailedError, match="another sync failed"):
        directory.flusher.wait(directory.log.end, HANG_S)
    with pytest.raises(StoreFailedError, match="another sync failed"):
        asyncio.run(directory.confirmation.confirmed(directory.log.end))
    directory.abandon()
    assert directory.flusher.flushed == flushed
