"""The damage at the end: flipped bits are repaired, and nothing else is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from litemq.storage.offline.verify import verify_directory
from support.cluster_chaos.flips import Flip
from support.cluster_chaos.site import Site

__all__ = ["damage", "wait_repaired"]

_POLL_S: Final = 0.2


async def wait_repaired(cluster: Site, flips: Collection[Flip], within: float) -> tuple[list[Flip], list[Flip]]:
    """Wait for the repair of ``flips``; return those that their brokers know, and the unknown ones.

    A broker that has not read a record since its bit was flipped searches its log when it restarts.
    """
    for name in sorted({flip.broker for flip in flips if not flip.is_repaired()}):
        cluster.processes[name].restart()
    until = asyncio.get_running_loop().time() + within
    while left := [flip for flip in flips if not flip.is_repaired()]:
        if asyncio.get_running_loop().time() > until:
            break
        await asyncio.sleep(_POLL_S)
    replicas = (each for view in (await cluster.views()).values() for each in view.replicas)
    reporting = {each.broker_id for each in replicas if each.damaged_stretches}
    known = [flip for flip in left if flip.broker in reporting]
    return known, [flip for flip in left if flip not in known]


def damage(directories: Mapping[str, Path], known: Collection[Flip]) -> Iterator[str]:
    """I12: the data directories of stopped brokers are undamaged, but for the ``known`` flips."""
    for name, directory in directories.items():
        is_known = any(flip.broker == name for flip in known)
        for finding in verify_directory(directory).findings:
            if not (is_known and Path(finding.path).parent.name == "commitlog"):
                yield f"I12: {finding.path} of {name} is damaged at byte {finding.offset}: {finding.reason}"
