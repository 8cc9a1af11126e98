"""A disk whose syncs of the log wait for the test: what is written there is not confirmed yet."""

from __future__ import annotations

import threading

from litemq.storage.files.disk import Disk, OpenFile
from support.waiting import HANG_S


class GatedDisk(Disk):
    """A disk that syncs the log only while its ``gate`` is set."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def fsync(self, file: OpenFile) -> None:
        if file.path.parent.name == "commitlog":
            self.gate.wait(HANG_S)
        super().fsync(file)
