"""A small web service: ``POST /orders`` sends an order, and a background consumer counts them.

Start a cluster (``litemq up``), then install and run the service::

    pip install litemq fastapi uvicorn
    uvicorn --app-dir examples web_service:app
    curl -X POST -H 'Content-Type: application/json' -d '{"item": "tea"}' http://127.0.0.1:8000/orders
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator

from fastapi import FastAPI

import litemq

URL = os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876")

mq = litemq.AsyncClient(URL)
seen = 0


async def count() -> None:
    global seen
    async for message in mq.consumer("web-orders", group_id="counting"):
        async with message.process():
            seen += 1


@contextlib.asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with mq:  # one client serves the whole program
        counting = asyncio.create_task(count())
        yield
        counting.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def order(body: dict[str, object]) -> dict[str, str]:
    receipt = await mq.send("web-orders", json.dumps(body).encode())
    return {"message_id": receipt.message_id}


@app.get("/orders/count")
async def orders_counted() -> dict[str, int]:
    return {"seen": seen}
