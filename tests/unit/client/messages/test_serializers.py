"""Serializers: values to bodies and back."""

import math

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


def test_parameters_of_a_content_type() -> None:
    serializers = Serializers()
    assert serializers.loads("t", b"[1]", "application/json; charset=utf-8") == [1]
    assert serializers.loads("t", b"x", 'Text/Plain;charset="UTF-8"') == "x"
    assert serializers.loads_as(Model(int), "t", b"5", "application/json;charset=utf-8") == 5
    with pytest.raises(SerializationError, match="charset=gbk"):
        serializers.loads("t", b"x", "text/plain; charset=gbk")


def test_an_error_says_what_to_do() -> None:
    serializers = Serializers()
    with pytest.raises(SerializationError, match=r"Json cannot write a value of type object: .*mq.topic\(name, type\)"):
        serializers.dumps("t", object())
    with pytest.raises(SerializationError, match="Json cannot read"):
        serializers.loads("t", b"{", "application/json")
    with pytest.raises(SerializationError, match="avro"):
        serializers.loads("t", b"{", "avro/binary")


@pytest.mark.parametrize("value", [math.nan, math.inf, {"x": [-math.inf]}])
def test_numbers_that_json_lacks_are_refused(value: object) -> None:
    with pytest.raises(SerializationError, match="not JSON compliant"):
        Serializers().dumps("t", value)
