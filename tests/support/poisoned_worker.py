"""A worker with poisoned messages: some make its handler raise, some make it hang.

It prints the numbers of messages that it handled.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

import litemq

TOPIC: Final = "poisoned"
GROUP: Final = "poisoned"
HEALED: Final = b"healed"
MAX_RETRIES: Final = 4


def raises(number: int) -> bool:
    """Return whether the handler raises: one message of ten."""
    return number % 10 == 3


def hangs(number: int) -> bool:
    """Return whether the handler hangs: one message of a hundred."""
    return number % 100 == 7


mq = litemq.AsyncClient(os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876"))


class PoisonError(Exception):
    """The error of a handler for a poisoned message."""


@mq.subscriber(
    TOPIC,
    group_id=GROUP,
    mode="lease",
    concurrency=32,
    lease=5,
    time_limit=0.4,
    max_retries=MAX_RETRIES,
    min_backoff=0.05,
    max_backoff=0.2,
    breaker=None,  # one of ten fails, for ever
)
async def handle(message: litemq.Message) -> None:
    number, _, healed = message.body.partition(b" ")
    if healed != HEALED:
        if raises(int(number)):
            raise PoisonError(f"message {int(number)} is poisoned")
        if hangs(int(number)):
            await asyncio.sleep(3600)
    with open(os.environ["RECORD_FILE"], "ab", buffering=0) as file:  # noqa: ASYNC230, PTH123  a line is written completely, also if the process is killed
        file.write(number + b"\n")
