"""The files that a replica keeps of what its masters lacked."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from litemq.server.replica import cut_off_files
from litemq.server.replica.cut_off_files import CutOffFiles
from support.on_loop import on_loop
from support.waiting import eventually


@on_loop
async def test_the_files_are_counted_until_they_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_off_files, "_INTERVAL_S", 0.0)
    files = CutOffFiles(tmp_path)
    files.count()
    assert (files.size, files.latest_ms) == (0, 0)
    for number, size in enumerate((10, 20), 1):
        path = tmp_path / f"cut-off-{number:020d}"
        path.write_bytes(bytes(size))
        os.utime(path, (number, number))
    counting = asyncio.create_task(files.recount())
    await eventually(lambda: (files.size, files.latest_ms) == (30, 2_000))
    path.unlink()
    await eventually(lambda: (files.size, files.latest_ms) == (10, 1_000))
    (tmp_path / f"cut-off-{1:020d}").unlink()
    await eventually(lambda: (files.size, files.latest_ms) == (0, 0))
    counting.cancel()
    await asyncio.wait([counting])
