"""Running workers, and the messages that they get and leave."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from litemq import AsyncClient, OutgoingMessage
from support.waiting import HANG_S

__all__ = ["left", "run", "running", "send"]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``test``, and end it where it hangs."""

    async def bounded() -> None:
        async with asyncio.timeout(HANG_S):
            await test()

    asyncio.run(bounded())


async def send(mq: AsyncClient, count: int, topic: str = "orders") -> None:
    """Send the numbers below ``count``, in order."""
    await mq.send_batch(topic, [OutgoingMessage(b"%d" % number, ordering_key="k") for number in range(count)])


async def left(mq: AsyncClient, wait: float = HANG_S) -> list[int]:
    """Wait for the messages of ``orders`` that are not done, and return their numbers."""
    return sorted(int(message.body) for message in await mq.receive("orders", group_id="g", wait=wait))


@asynccontextmanager
async def running(mq: AsyncClient, **how: Any) -> AsyncIterator["asyncio.Task[None]"]:
    """Run ``mq.run``, cancelled at the end if it still runs."""
    task = asyncio.get_running_loop().create_task(mq.run(**how))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
