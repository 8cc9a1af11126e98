"""A replicated group without a master: calls that time out say which replicas are needed."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from litemq import AsyncClient
from litemq.cli.rendering.exit_codes import EXIT_UNREACHABLE, exit_code
from litemq.errors import GroupUnavailableError, SendOutcomeUnknownError
from support.on_loop import on_loop
from support.replica_processes import ReplicaProcesses

_DOWN = (
    r"the group orders has no master: .*Silent: a since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, b since .*, c since .* UTC\. "
    r"Start one of [abc, ]+: each of them has all confirmed messages"  # an election may have dropped the master
)


@on_loop
async def test_all_replicas_are_down(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack)
        await group.wait_master(1)
        url = f"litemq://{group.nameserver.address}"
        async with AsyncClient(url, delivery_timeout_ms=4_000, request_timeout_ms=3_000) as mq:
            await mq.admin.create_topic("orders", queues=1)
            await mq.send("orders", b"one")
            for replica in group.replicas.values():
                replica.kill()

            async def send() -> str:
                try:
                    await mq.send("orders", b"two")
                except SendOutcomeUnknownError:  # sent before the connection was lost
                    return ""
                except GroupUnavailableError as error:
                    return str(error)
                raise AssertionError("no replica is alive")

            said = ""
            while not re.search(_DOWN, said):
                said = await send()
            with pytest.raises(GroupUnavailableError, match=_DOWN):
                await mq.admin.find("orders", "any")
            with pytest.raises(GroupUnavailableError, match=_DOWN):
                await mq.admin.create_topic("other")
            for replica in group.replicas.values():
                replica.start()
            await group.wait_master(2)
            await mq.send("orders", b"three")
    assert exit_code(GroupUnavailableError) == EXIT_UNREACHABLE
