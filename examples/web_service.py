"""A web service with FastAPI: ``POST /orders`` sends an order, and a consumer adds them up.

Start a cluster (``litemq up``), then install and run the service::

    pip install 'litemq[pydantic]' fastapi uvicorn
    uvicorn --app-dir examples web_service:app
    curl -X POST -H 'Content-Type: application/json' -d '{"item": "tea", "price": "2.50"}' http://127.0.0.1:8000/orders
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator
from decimal import Decimal

from fastapi import FastAPI
from pydantic import BaseModel

import litemq

URL = os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876")


class Order(BaseModel):
    """The body of the request, and of the message."""

    item: str
    price: Decimal


mq = litemq.AsyncClient(URL)
orders = mq.topic("web-orders", Order)
total = Decimal(0)


async def add_up() -> None:
    global total
    async for message in mq.consumer("web-orders", group_id="adding"):
        try:
            async with message.process():
                total += message.decode(Order).price
        except litemq.LiteMQError:  # the message is a dead letter now; go on with the next one
            logging.exception("%s could not be added", message.message_id)


@contextlib.asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
    async with mq:  # one client serves the whole program
        adding = asyncio.create_task(add_up())
        yield
        adding.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def order(body: Order) -> dict[str, str]:
    receipt = await orders.send(body)
    return {"message_id": receipt.message_id}


@app.get("/orders/total")
async def orders_total() -> dict[str, Decimal]:
    return {"total": total}
