"""A web service with Flask: ``POST /quotes`` sends a task to the workers, who find the price.

Start a cluster (``litemq up``), then install and run a worker and the service::

    pip install 'litemq[pydantic]' flask
    cd examples
    litemq worker flask_service:mq
    flask --app flask_service run
    curl -X POST -H 'Content-Type: application/json' -d '{"item": "tea", "count": 3}' http://127.0.0.1:5000/quotes
    curl http://127.0.0.1:5000/quotes/ID
"""

import atexit
import os
from dataclasses import dataclass
from decimal import Decimal

from flask import Flask, request
from flask.typing import ResponseReturnValue

import litemq
from litemq.errors import ResultTimeoutError, TaskFailedError

URL = os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876")
PRICES = {"tea": Decimal("2.50"), "cake": Decimal("4.10")}

mq = litemq.Client(URL)


@dataclass
class Order:
    item: str
    count: int


@mq.task(topic="quotes", throws=(KeyError,))
def quote(order: Order) -> Decimal:
    return PRICES[order.item] * order.count


def create_app() -> Flask:
    app = Flask(__name__)
    mq.open()  # one client serves the whole program
    atexit.register(mq.close)

    @app.post("/quotes")
    def ask() -> ResponseReturnValue:
        body = request.get_json()
        handle = quote.send(Order(str(body["item"]), int(body["count"])))
        return {"id": handle.id}, 202

    @app.get("/quotes/<call_id>")
    def answer(call_id: str) -> ResponseReturnValue:
        try:
            return {"price": str(quote.handle(call_id).result(timeout=10))}
        except ResultTimeoutError:
            return {"error": "there is no price yet"}, 404
        except TaskFailedError as error:
            return {"error": str(error)}, 422

    return app
