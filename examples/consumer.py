"""Bill the orders that ``producer.py`` sends, for the group "billing", until Ctrl-C.

When the handler returns, its message is acknowledged. When it raises, the program goes on: the
message is retried later, and becomes a dead letter after the last retry.
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
        await mq.run()  # calls the handlers until Ctrl-C


if __name__ == "__main__":
    asyncio.run(main())
