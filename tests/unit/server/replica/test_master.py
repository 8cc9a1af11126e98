"""The role of the master: when changes of the in-sync set are decided."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from litemq.server.replica.master import MasterRole
from support.on_loop import on_loop
from support.waiting import eventually


@on_loop
async def test_a_change_of_the_set_is_decided_once_no_switch_is_in_progress() -> None:
    """During a switch, more may be confirmed, which a newcomer of before does not have."""
    changing, decided = asyncio.Lock(), list[bool]()
    role = SimpleNamespace(
        _hand_over=SimpleNamespace(changing=changing),
        _shipping=SimpleNamespace(propose=lambda: decided.append(changing.locked())),
    )
    await changing.acquire()
    keeping = asyncio.create_task(MasterRole._keep_set(cast("MasterRole", role)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not decided
    changing.release()
    await eventually(lambda: decided)
    assert decided[0]  # no switch begins before the change is made
    keeping.cancel()
    await asyncio.wait([keeping])
