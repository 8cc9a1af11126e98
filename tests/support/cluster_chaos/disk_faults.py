"""Faults of the disks of brokers: power cuts, empty disks, flipped bits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from random import Random
from typing import Final

from litemq.storage.files.disk import READ_ONLY
from litemq.storage.log.checkpoint import CheckpointFile
from support.cluster_chaos.flips import Flip, flip_bit
from support.cluster_chaos.site import Site
from support.cluster_chaos.targets import Targets
from support.hosts.process import HostProcess

__all__ = ["DiskFaults"]

_WHOLE_WITHIN_S: Final = 120.0


class DiskFaults:
    """Faults by name, and the bits that were flipped.

    A group survives the loss of one disk, or of a part of it. So bits are flipped and disks are
    wiped only while the group of the disk is whole.
    """

    def __init__(self, site: Site, targets: Targets, chance: Random, *, has_power: bool) -> None:
        self._site = site
        self._targets = targets
        self._chance = chance
        self.flips: list[Flip] = []
        self.of_whole_groups: dict[str, Callable[[], AbstractAsyncContextManager[str]]] = {
            "wiped disk": self._wiped_disk,
            "flipped bit of a stopped broker": self._flipped_while_stopped,
            "flipped bit of a running master": partial(self._flipped_while_running, "master"),
            "flipped bit of a running follower": partial(self._flipped_while_running, "follower"),
        }
        of_power = ("master", "follower", "group", "all brokers") if has_power else ()
        self.power_cuts = {f"power cut of {of}": partial(self._power_cut, of) for of in of_power}

    @asynccontextmanager
    async def _power_cut(self, of: str) -> AsyncIterator[str]:
        targets = await self._targets.choose_running(of)
        for target in targets:
            target.freeze()  # it must not report a sync that the power cut has made void
            self._site.disks[target.name].cut_power()
            target.kill()
        yield _names(targets)
        for target in targets:
            self._site.disks[target.name].restore_power()
            target.start()

    @asynccontextmanager
    async def _wiped_disk(self) -> AsyncIterator[str]:
        target = await self._of_whole_group("broker")
        if target is None:
            yield ""
            return
        target.kill()
        self._site.disks[target.name].wipe()
        yield target.name
        target.start()
        await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]])

    @asynccontextmanager
    async def _flipped_while_stopped(self) -> AsyncIterator[str]:
        target = await self._of_whole_group("broker")
        if target is None:
            yield ""
            return
        target.kill()
        yield self._flip(target)
        target.start()
        await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]])

    @asynccontextmanager
    async def _flipped_while_running(self, of: str) -> AsyncIterator[str]:
        """Flip a bit, which the broker finds when it reads or ships the record, or at a restart."""
        target = await self._of_whole_group(of)
        yield self._flip(target) if target is not None else ""

    async def _of_whole_group(self, of: str) -> HostProcess | None:
        (target,) = await self._targets.choose(of)
        return None if await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]]) else target

    def _flip(self, target: HostProcess) -> str:
        """Flip a bit of a confirmed record; return where.

        The record is below the checkpoint. Above it, a broker that was killed cannot tell a flipped
        bit from a torn write, which ends the log.
        """
        data = self._site.disks[target.name].path / "data"
        if not (data / "checkpoint").exists():
            return ""
        checkpoint = CheckpointFile(READ_ONLY, data / "checkpoint").latest
        below = min(checkpoint.flushed, checkpoint.confirmed) if checkpoint is not None else 0
        flip = flip_bit(target.name, data / "commitlog", below, self._chance)
        if flip is None:
            return ""
        self.flips.append(flip)
        return str(flip)


def _names(targets: Sequence[HostProcess]) -> str:
    return " ".join(each.name for each in targets)
