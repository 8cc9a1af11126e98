"""Serializers: values to bodies and back."""

import pytest
from pydantic import BaseModel

from litemq.client.messages.serializers import Bytes, Json, Model, MsgPack, Serializer, Serializers, Text
from litemq.errors import SerializationError


class Order(BaseModel):
    id: int


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (Bytes(), b"x"),
        (Text(), "héllo"),
        (Json(), {"a": [1, None]}),
        (MsgPack(), {"a": [1, b"x"]}),
        (Model(Order), Order(id=3)),
    ],
)
def test_a_value_survives_a_round_trip(serializer: Serializer, value: object) -> None:
    serializers = Serializers({"t": serializer})
    body, content_type = serializers.dumps("t", value)
    assert serializers.loads("t", body, content_type) == value


def test_without_a_serializer_the_type_decides() -> None:
    serializers = Serializers()
    assert serializers.dumps("t", b"x") == (b"x", "")
    assert serializers.dumps("t", bytearray(b"x")) == (b"x", "")
    assert serializers.dumps("t", "x") == (b"x", "text/plain")
    assert serializers.dumps("t", [1]) == (b"[1]", "application/json")
    assert serializers.loads("t", MsgPack().dumps([1]), "application/msgpack") == [1]


def test_an_error_says_what_to_do() -> None:
    serializers = Serializers({"orders": Model(Order)})
    with pytest.raises(SerializationError, match="choose a serializer"):
        serializers.dumps("t", object())
    with pytest.raises(SerializationError, match="expected Order, got"):
        serializers.dumps("orders", {"id": 3})
    with pytest.raises(SerializationError, match="Json cannot read"):
        serializers.loads("t", b"{", "application/json")
    with pytest.raises(SerializationError, match="avro"):
        serializers.loads("t", b"{", "avro/binary")
    with pytest.raises(SerializationError, match="Model cannot read"):
        serializers.loads("orders", b"{}", "application/json")
