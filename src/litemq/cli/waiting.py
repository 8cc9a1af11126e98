"""Lines on standard error that say what a command waits for."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from litemq.errors import LiteMQError

if TYPE_CHECKING:
    from litemq import AsyncClient

__all__ = ["noting_waits"]

_PATIENCE_S: Final = 2.0
_AGAIN_S: Final = 1.0
_NUMBER: Final = r"(?<![\w-])\d[\d.:-]*"  # also a date, but not that of a name
# A master that was killed and started again reports, but serves no client until it is elected.
_UNKNOWN: Final = "no answer yet. If a master has failed, another replica takes over when its lease has ended"


@asynccontextmanager
async def noting_waits(
    mq: AsyncClient, patience_s: float = _PATIENCE_S, again_s: float = _AGAIN_S
) -> AsyncIterator[None]:
    """Say what the block waits for after ``patience_s``, and each ``again_s`` if there is more."""
    noting = asyncio.create_task(_note(mq, patience_s, again_s))
    try:
        yield
    finally:
        noting.cancel()
        await asyncio.wait([noting])


async def _note(mq: AsyncClient, patience_s: float, again_s: float) -> None:
    said: set[str] = set()
    await asyncio.sleep(patience_s)
    while True:
        reasons = await _reasons(mq)
        new = {re.sub(_NUMBER, "", each): each for each in reasons}  # the numbers are different each time
        unsaid = [each for key, each in new.items() if key not in said and not (said and each == _UNKNOWN)]
        if unsaid:
            sys.stderr.write(f"waiting: {'; '.join(unsaid)}\n")
            sys.stderr.flush()
        said.update(new)
        await asyncio.sleep(again_s)


async def _reasons(mq: AsyncClient) -> list[str]:
    try:
        groups = await mq.admin.replica_groups()
    except LiteMQError:  # the error of the command says why
        groups = []
    outages = [f"group {each.name}: {each.outage}" for each in groups if each.outage]
    refusals = [f"broker {name} refuses for now: {reason}" for name, reason in mq.refusals.items()]
    return outages or refusals or ([_UNKNOWN] if groups else [])
