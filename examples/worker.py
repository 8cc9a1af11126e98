"""Two tasks, and a handler that processes payments in batches.

Start a cluster (``litemq up``), then run in this directory::

    litemq worker worker:mq         # makes the calls
    python worker.py                # sends some calls
"""

import asyncio
import logging
import os

import litemq

log = logging.getLogger("shop")  # not print: several threads write at the same time
mq = litemq.AsyncClient(os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876"))


class CardDeclinedError(Exception):
    """The bank declined the card: retrying does not help."""


@mq.task(max_retries=5, min_backoff=1, time_limit=30, throws=(CardDeclinedError,))
async def charge(order: int, cents: int) -> None:
    if cents > 100_000:
        raise CardDeclinedError(f"order {order}")  # becomes a dead letter, because of throws=
    log.info("charged order %d: %.2f", order, cents / 100)
    await mq.send("example-payments", {"order": order, "cents": cents})


@mq.task(time_limit=60)
def print_label(order: int) -> None:  # a plain function runs on a thread
    log.info("label of order %d", order)


@mq.subscriber("example-payments", group_id="books", mode="lease", batch=100, batch_wait=0.5)
async def book(messages: list[litemq.Message]) -> None:
    total = sum(message.value["cents"] for message in messages)
    log.info("booked %.2f of %d payments", total / 100, len(messages))


async def main() -> None:
    async with mq:
        for order in range(1, 6):
            await charge.send(order, cents=order * 1000)
            await print_label.options(delay=1).send(order)


if __name__ == "__main__":
    asyncio.run(main())
