"""Read orders for the group "billing" until Ctrl-C, those that ``producer.py`` sends.

A handler that returns has acknowledged its message. One that raises ends the program; after a restart the group goes on with that message,
and with those behind it in its queue.
"""

import asyncio
import json
import os

import litemq

URL = os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876")

mq = litemq.AsyncClient(URL)


@mq.subscriber("example-orders", group_id="billing")
async def bill(message: litemq.Message) -> None:
    order = json.loads(message.body)
    print(f"billed order {order['id']} of {order['customer']}", flush=True)


async def main() -> None:
    async with mq:
        await mq.run()  # a message is acknowledged when its handler returns


if __name__ == "__main__":
    asyncio.run(main())
