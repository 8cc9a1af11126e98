"""Answers to sends: immediate or after the disk's confirmation.

If a request mixes timers and messages, its answer has every offset.
"""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.sending.answers import list_held_offsets
from litemq.broker.sending.send_tick import SendTick
from litemq.types import Durability
from support.callers import Asking, records, running_broker


def test_a_request_with_timers_and_messages_lists_every_offset() -> None:
    tick = SendTick()
    tick.counts, tick.levels, tick.delayed = [1, 2, 2, 2], [2, 2, 2, 0], [1, 2, 3]
    every = [5, -1, -1, 6, -1, 7, -1]
    assert list_held_offsets(tick, [5, -1, 6, 7], every, 99) == [5, -1, -1, 7]
    assert tick.earlier == {2: [(6, 99), (-1, 99)]}


@pytest.mark.parametrize("level", [Durability.NONE, Durability.MEMORY])
def test_levels_below_disk_are_answered_at_once(level: Durability, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            answer = await ann.send(records(level=level))
            assert answer.queue_offset == (-1 if level is Durability.NONE else 0)

    asyncio.run(main())
