"""The first hour of a user, against real servers; mypy and pyright check it, too."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

import litemq
from litemq.errors import IncompatibleSchemaError
from support.commands import environment_of_commands, running, up
from support.waiting import HANG_S

WORKER = """
import os

import litemq

mq = litemq.Client(os.environ["LITEMQ_URL"])


@mq.task(topic="adding")
def add(a: int, b: int) -> int:
    return a + b
"""


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    id: UUID
    at: datetime
    total: Decimal
    colour: Colour = Colour.RED


class OrderWithCustomer(Order):
    customer: str


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with up(tmp_path_factory.mktemp("cluster")) as (_, environment):
        yield environment


def _command(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "litemq", *arguments]
    result = subprocess.run(
        command, env=environment_of_commands(environment), capture_output=True, text=True, check=True, timeout=HANG_S
    )
    return result.stdout


def test_json_from_the_command_line_is_a_dict_in_python(environment: dict[str, str]) -> None:
    _command(environment, "message", "send", "shop", '{"id": 1, "name": "茶"}')
    _command(environment, "message", "send", "shop", "hello")
    _command(environment, "message", "send", "shop", '{"id": 2}', "--raw")
    with litemq.Client(environment["LITEMQ_URL"]) as mq:
        values = [message.value for message in mq.reader("shop", follow=False)]
    assert sorted(map(repr, values)) == sorted(map(repr, [{"id": 1, "name": "茶"}, "hello", b'{"id": 2}']))


def test_a_pydantic_model_from_end_to_end(environment: dict[str, str]) -> None:
    sent = Order(id=uuid4(), at=datetime.now(UTC), total=Decimal("9.90"))
    received: list[Order] = []

    async def run() -> None:
        async with litemq.AsyncClient(environment["LITEMQ_URL"]) as mq:
            orders = mq.topic("orders", Order)
            stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            @orders.subscriber(group_id="billing")
            async def bill(order: Order) -> None:
                received.append(order)
                stopping.set_result(None)

            running = asyncio.create_task(mq.run())
            await orders.send(sent, keys=str(sent.id))
            await asyncio.wait_for(stopping, HANG_S)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(run())
    assert received == [sent]


def test_an_incompatible_type_is_refused_with_the_name_of_the_field(environment: dict[str, str]) -> None:
    with litemq.Client(environment["LITEMQ_URL"]) as mq:
        mq.topic("typed", Order).declare()
    with litemq.Client(environment["LITEMQ_URL"]) as mq:
        orders = mq.topic("typed", OrderWithCustomer)
        with pytest.raises(IncompatibleSchemaError, match="field 'customer' is required"):
            orders.declare()
    assert '"title": "Order"' in _command(environment, "topic", "schema", "typed")


def test_a_worker_returns_the_result_of_a_task(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(WORKER)
    with running("worker", "calls:mq", cwd=tmp_path, environment=environment) as worker:
        worker.wait_for("calls:mq is running")
        with litemq.Client(environment["LITEMQ_URL"]) as mq:

            @mq.task(topic="adding")
            def add(a: int, b: int) -> int:
                raise AssertionError("the worker makes the call")

            result: int = add.send(2, b=3).result(timeout=HANG_S)
            assert result == 5
        assert worker.stop() == 0
