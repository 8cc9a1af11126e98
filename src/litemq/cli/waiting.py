"""A line on standard error while a command waits for the master of a replicated group."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from litemq.errors import LiteMQError

if TYPE_CHECKING:
    from litemq import AsyncClient
    from litemq.client.engine.replicas import ReplicaGroupInfo

__all__ = ["noting_outages"]

_PATIENCE_S: Final = 2.0
# A master that was killed and started again reports, but serves no client until it is elected.
_UNKNOWN: Final = "no answer yet. If a master has failed, another replica takes over when its lease has ended"


@asynccontextmanager
async def noting_outages(mq: AsyncClient, patience_s: float = _PATIENCE_S) -> AsyncIterator[None]:
    """Say what the block waits for, if it takes ``patience_s`` in a cluster with replicas."""
    noting = asyncio.create_task(_note_outage(mq, patience_s))
    try:
        yield
    finally:
        noting.cancel()
        await asyncio.wait([noting])


async def _note_outage(mq: AsyncClient, patience_s: float) -> None:
    await asyncio.sleep(patience_s)
    try:
        groups = await mq.admin.replica_groups()
    except LiteMQError:  # the error of the command says why
        return
    if groups:
        sys.stderr.write(f"waiting: {'; '.join(filter(None, map(_outage, groups))) or _UNKNOWN}\n")
        sys.stderr.flush()


def _outage(group: ReplicaGroupInfo) -> str:
    """Return why no replica of ``group`` serves clients; empty: its master does."""
    master = group.master
    if master is None:
        return f"group {group.name} has no master: {group.obstacle or 'the election is in progress'}"
    if not master.alive:
        return (
            f"{master.broker_id}, the master of group {group.name}, has not reported for "
            f"{master.heard_ms_ago / 1000:.1f} s: another replica takes over when its lease has ended"
        )
    return ""
