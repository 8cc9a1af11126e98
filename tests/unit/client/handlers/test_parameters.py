"""Handlers get messages, or bodies as values of the declared type."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import litemq
from litemq.client.handlers.parameters import call_with_messages
from litemq.errors import InvalidArgumentError, MissingExtraError, SerializationError
from litemq.testing import MemoryBroker
from support.waiting import HANG_S, eventually

if TYPE_CHECKING:
    from litemq import Message
    from litemq import Message as Unknown


class Order(BaseModel):
    id: int


@dataclass
class Item:
    name: str


class Socket:
    pass


def _raw(message) -> None: ...  # type: ignore[no-untyped-def]
def _message(message: litemq.Message) -> None: ...
def _only_for_checkers(message: Message) -> None: ...
def _anything(message: Any, extra: int = 0) -> None: ...
def _variadic(*messages: object) -> None: ...
def _messages(messages: list[litemq.Message]) -> None: ...
def _list(messages: list) -> None: ...  # type: ignore[type-arg]


@pytest.mark.parametrize("handler", [_raw, _message, _only_for_checkers, _anything, _variadic, print])
def test_messages_are_passed_on(handler: Callable[..., Any]) -> None:
    assert call_with_messages(handler, is_batch=False) is handler


@pytest.mark.parametrize("handler", [_raw, _messages, _list, _anything])
def test_batches_of_messages_are_passed_on(handler: Callable[..., Any]) -> None:
    assert call_with_messages(handler, is_batch=True) is handler


def _two_required(order: Order, more: int) -> None: ...
def _keyword(order: Order, *, more: int) -> None: ...
def _none() -> None: ...
def _untyped_body(order, message: litemq.Message) -> None: ...  # type: ignore[no-untyped-def]
def _socket(socket: Socket) -> None: ...
def _unresolved(order: Unknown) -> None: ...


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (_two_required, "second parameter is required"),
        (_keyword, "cannot be a handler"),
        (_none, "cannot be a handler"),
        (_untyped_body, "declare the type of the first one"),
        (_socket, "Socket cannot be the type of a message"),
        (_unresolved, "name 'Unknown' is not defined"),
    ],
)
def test_a_handler_that_could_never_be_called_is_refused(handler: Callable[..., Any], reason: str) -> None:
    mq = litemq.AsyncClient("memory://")
    with pytest.raises(InvalidArgumentError, match=reason):
        mq.subscriber("orders", group_id="g")(handler)
    assert mq.subscriptions == ()


def test_a_batch_needs_a_list() -> None:
    with pytest.raises(InvalidArgumentError, match=r"such as list\[Order\]"):
        call_with_messages(_one_order, is_batch=True)


def _one_order(order: Order) -> None: ...


def test_without_pydantic_the_declaration_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Fresh:  # not in the cache of models
        id: int

    def handle(order) -> None: ...  # type: ignore[no-untyped-def]

    handle.__annotations__ = {"order": Fresh}
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(MissingExtraError, match=r"litemq\[pydantic\]"):
        call_with_messages(handle, is_batch=False)


async def _run(mq: litemq.AsyncClient, expected: int, seen: list[Any]) -> None:
    running = asyncio.create_task(mq.run())
    try:
        await eventually(lambda: len(seen) >= expected)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_bodies_are_decoded() -> None:
    seen: list[Any] = []

    async def run() -> None:
        async with litemq.AsyncClient("memory://") as mq:

            @mq.subscriber("orders", group_id="a")
            async def on_order(order: Order) -> None:
                seen.append(order)

            @mq.subscriber("orders", group_id="b")
            def on_order_and_message(order: Order, message: litemq.Message) -> None:
                seen.append((order, message.keys))

            @mq.subscriber("items", group_id="a", batch=2, batch_wait=5)
            def on_items(items: Sequence[Item]) -> None:
                seen.append(items)

            await mq.send("orders", {"id": 1}, keys="k")
            await mq.send_batch("items", [litemq.OutgoingMessage({"name": name}, ordering_key="x") for name in "ab"])
            await _run(mq, 3, seen)
            assert on_order.__name__ == "on_order"

    asyncio.run(run())
    assert Order(id=1) in seen
    assert (Order(id=1), ("k",)) in seen
    assert [Item("a"), Item("b")] in seen


def test_a_body_of_another_type_becomes_a_dead_letter_at_once() -> None:
    letters: list[litemq.DeadLetter] = []

    async def run() -> None:
        async with litemq.AsyncClient("memory://") as mq:

            @mq.subscriber("orders", group_id="a")
            async def on_order(order: Order) -> None: ...

            await mq.send("orders", {"id": "x"})
            running = asyncio.create_task(mq.run())
            async with asyncio.timeout(HANG_S):
                while not letters:
                    letters.extend(await mq.dead_letters("orders").select())
                    await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    (letter,) = letters
    assert letter.is_undecodable
    assert "no valid Order: id: Input should be a valid integer" in letter.error


def test_the_synchronous_client_decodes_too() -> None:
    seen: list[Any] = []
    with MemoryBroker() as broker, litemq.Client(broker.url) as mq:

        @mq.subscriber("orders", group_id="a")
        def on_order(order: Order, message: litemq.Message) -> None:
            seen.append((order, message.decode(Order)))
            raise SerializationError("stop")

        (subscription,) = mq.subscriptions
        assert subscription.name == "on_order of orders"
        mq.send("orders", {"id": 2})
        message = next(mq.consumer("orders", group_id="b"))
        with pytest.raises(SerializationError, match="stop"):
            subscription.handler(message._wrapped)
    assert seen == [(Order(id=2), Order(id=2))]
