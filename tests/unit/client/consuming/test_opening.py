"""Opening consumers: the type for each call, and calls with contradicting arguments."""

from pathlib import Path
from typing import Any

import pytest

from litemq import AsyncClient
from litemq.client.consuming.broadcast_consumer import BroadcastConsumer
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.lease_consumer import LeaseConsumer
from litemq.client.consuming.ordered_consumer import OrderedConsumer
from litemq.errors import InvalidArgumentError
from support.on_loop import on_loop


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, Consumer),
        ({"ordered": True}, OrderedConsumer),
        ({"mode": "lease"}, LeaseConsumer),
        ({"mode": "broadcast"}, BroadcastConsumer),
        ({"mode": "broadcast", "ordered": True}, BroadcastConsumer),
    ],
)
@on_loop
async def test_a_call_selects_the_type(options: dict[str, Any], kind: type[Consumer], tmp_path: Path) -> None:
    async with AsyncClient("memory://", client_id="me", offsets_directory=str(tmp_path)) as mq:
        assert type(mq.consumer("orders", group_id="g", **options)) is kind


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"mode": "stream"}, "choose queue, lease or broadcast"),
        ({"mode": "lease", "ordered": True}, "needs mode='queue'"),
        ({"mode": "lease", "auto_offset_reset": "error"}, "choose 'earliest' or 'latest'"),
        ({"mode": "broadcast"}, "client_id="),
        ({"auto_offset_reset": "newest"}, "choose earliest, latest or error"),
        ({"group_id": ""}, "group"),
    ],
)
@on_loop
async def test_a_contradiction_says_what_to_choose(options: dict[str, Any], word: str) -> None:
    async with AsyncClient("memory://") as mq:
        with pytest.raises(InvalidArgumentError, match=word):
            mq.consumer("orders", **{"group_id": "g", **options})
