"""Send ten orders; those of one customer stay in order. Start a cluster first: ``litemq up``."""

import asyncio
import json
import os

import litemq

URL = os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876")


async def main() -> None:
    async with litemq.AsyncClient(URL) as mq:
        for number in range(1, 11):
            customer = f"c-{number % 3}"
            order = {"id": number, "customer": customer}
            receipt = await mq.send(
                "example-orders", json.dumps(order).encode(), keys=f"o-{number}", ordering_key=customer
            )
            print(f"order {number} is at offset {receipt.queue_offset} of queue {receipt.queue_id}")


if __name__ == "__main__":
    asyncio.run(main())
