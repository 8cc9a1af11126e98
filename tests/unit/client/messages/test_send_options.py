"""Send options: one list for all methods that send, and ``TypeError`` for unknown ones."""

import dataclasses
import inspect

import pytest

from litemq import AsyncClient, Client, OutgoingMessage
from litemq.client.messages.send_options import MessageOptions, SendOptions, outgoing_message
from support.on_loop import on_loop


def test_the_options_are_the_fields_of_a_message_and_the_parameters_of_send() -> None:
    assert set(MessageOptions.__annotations__) == {field.name for field in dataclasses.fields(OutgoingMessage)} - {
        "body"
    }
    for method in (AsyncClient.send, AsyncClient.send_nowait, Client.send, Client.send_nowait):
        parameters = inspect.signature(method).parameters.values()
        assert {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY} == set(
            SendOptions.__annotations__
        )


def test_a_message_has_the_options_and_else_the_defaults() -> None:
    assert outgoing_message("send", b"x", {}) == OutgoingMessage(b"x")
    assert outgoing_message("send", b"x", {"properties": None}) == OutgoingMessage(b"x")
    chosen = outgoing_message(
        "send", b"x", {"tags": "a", "keys": ["k"], "properties": {"p": "v"}, "delay": 3, "batch_id": "b"}
    )
    assert chosen == OutgoingMessage(b"x", tags="a", keys=["k"], properties={"p": "v"}, delay=3, batch_id="b")


@on_loop
async def test_an_unknown_option_raises() -> None:
    async with AsyncClient("memory://") as mq:
        with pytest.raises(TypeError, match=r"send\(\) got an unexpected keyword argument 'dely'"):
            await mq.send("orders", b"x", dely=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"send_transaction\(\) got an unexpected keyword argument 'dely'"):
            await mq.send_transaction("orders", b"x", group_id="shop", dely=1)  # type: ignore[call-arg]
        async with mq.transaction("orders", group_id="shop") as transaction:
            with pytest.raises(TypeError, match=r"send\(\) got an unexpected keyword argument 'durability'"):
                await transaction.send(b"x", durability="disk")  # type: ignore[call-arg]


def test_an_unknown_option_raises_in_the_synchronous_client() -> None:
    with Client("memory://") as mq:
        with pytest.raises(TypeError, match=r"send_transaction\(\) got an unexpected keyword argument 'dely'"):
            mq.send_transaction("orders", b"x", group_id="shop", dely=1)  # type: ignore[call-arg]
        transaction = mq.transaction("orders", group_id="shop")
        with pytest.raises(TypeError, match=r"send\(\) got an unexpected keyword argument 'dely'"):
            transaction.send(b"x", dely=1)  # type: ignore[call-arg]
