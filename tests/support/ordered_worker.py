"""A worker that keeps the order of keys while some of its messages fail, once or for ever.

It records when its handler begins and how it ends, so that a test can judge the order of all
workers.
"""

from __future__ import annotations

import os
from typing import Final

import litemq

TOPIC: Final = "steps"
GROUP: Final = "steps"
MAX_RETRIES: Final = 3


def is_flaky(number: int) -> bool:
    """Return whether the handler fails twice: one message of five."""
    return number % 5 == 3


def is_poisoned(number: int) -> bool:
    """Return whether the handler always fails: one message of twenty."""
    return number % 20 == 7


mq = litemq.AsyncClient(os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876"), session_timeout_ms=3000)


class StepError(Exception):
    """The error of a handler for a message that fails."""


@mq.subscriber(
    TOPIC,
    group_id=GROUP,
    ordered=True,
    concurrency=16,
    max_retries=MAX_RETRIES,
    min_backoff=0.01,
    max_backoff=0.05,
    breaker=None,  # some fail for ever
)
async def handle(message: litemq.Message) -> None:
    number = int(message.body.split(b"/")[-1])
    _record("begins", message)
    if is_poisoned(number) or (is_flaky(number) and message.attempt < 3):
        _record("fails", message)
        raise StepError(f"step {number} of {message.ordering_key}")
    _record("ends", message)


def _record(event: str, message: litemq.Message) -> None:
    line = f"{event} {message.body.decode()} {message.attempt} {os.getpid()}\n"
    with open(os.environ["RECORD_FILE"], "ab", buffering=0) as file:  # noqa: PTH123  one write per line
        file.write(line.encode())
