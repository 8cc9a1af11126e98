"""Values of a declared type: the round trip, and what is refused."""

import math
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from litemq.client.messages.model import Model
from litemq.client.messages.serializers import Serializers
from litemq.errors import InvalidArgumentError, MissingExtraError, SerializationError


class Colour(Enum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: Decimal
    colour: Colour = Colour.RED


@dataclass
class Cart:
    id: UUID
    at: datetime
    items: list[Item] = field(default_factory=list)


@dataclass
class Anything:
    value: Any


@dataclass
class Positive:
    n: Annotated[int, Field(gt=0)]


class TwoNames(BaseModel):
    user: int = Field(validation_alias="uid", serialization_alias="userID")


class Order(BaseModel):
    order_id: int = Field(alias="orderId")
    total: float = 0.0
    cart: Cart | None = None


_CART = Cart(UUID(int=7), datetime(2026, 1, 31, 12, tzinfo=UTC), [Item("茶", Decimal("1.10"))])


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Order, Order(orderId=3, total=1.5, cart=_CART)),
        (Cart, _CART),
        (list[Cart], [_CART]),
        (dict[str, Item], {"a": _CART.items[0]}),
        (datetime, _CART.at),
        (date, date(2026, 1, 31)),
        (timedelta, timedelta(seconds=90)),
        (UUID, UUID(int=7)),
        (Decimal, Decimal("0.10")),
        (Colour, Colour.RED),
        (str, "x"),
        (int, 5),
        (bool, True),
    ],
)
def test_a_value_survives_a_round_trip(declared: Any, value: object) -> None:
    model: Model[Any] = Model(declared)
    serializers = Serializers({"t": model})
    body, content_type = serializers.dumps("t", value)
    assert content_type == "application/json"
    loaded = serializers.loads("t", body, content_type)
    assert (type(loaded), loaded) == (type(value), value)
    assert Serializers().loads_as(model, "t", body, content_type) == value
    assert Serializers().loads_as(model, "t", body, "") == value  # a producer that names no content type


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        (Cart, {"id": 1}, "instance of Cart"),
        (Order, _CART, "expected Order, got Cart"),
        (Order, {"orderId": 1}, "expected Order, got dict"),
        (Item, Item("x", "much"), "price: .*[Dd]ecimal"),  # type: ignore[arg-type]
        (int, "5", "valid integer"),
        (float, math.nan, "JSON"),
        (dict, {"a": [math.nan]}, "JSON"),
        (Anything, Anything({"a": (math.inf,)}), "JSON"),
        (Item, Item(None, Decimal(1)), "name: Input should be a valid string"),  # type: ignore[arg-type]
        (Positive, Positive(-1), "n: Input should be greater than 0"),
        (TwoNames, TwoNames.model_validate({"uid": 1}), "uid: Field required"),
        (Order, Order(orderId=1, total=math.inf), "JSON"),
    ],
)
def test_a_value_of_another_type_is_refused(declared: Any, value: object, reason: str) -> None:
    model: Model[Any] = Model(declared)
    with pytest.raises(SerializationError, match=f"(?s)^topic 't': .*{reason}.* Send a value of type"):
        Serializers({"t": model}).dumps("t", value)


def test_an_invalid_body_names_the_field_and_not_the_value() -> None:
    serializers = Serializers({"t": Model(Order)})
    with pytest.raises(SerializationError, match=r"no valid Order: orderId: .*valid integer") as caught:
        serializers.loads("t", b'{"orderId": "secret"}', "application/json")
    assert "secret" not in str(caught.value)
    with pytest.raises(SerializationError, match="no valid Order: orderId: Field required"):
        Serializers().loads_as(Model(Order), "t", b"{}", "")


def test_other_formats_are_read_as_the_type() -> None:
    serializers = Serializers()
    assert serializers.loads_as(Model(str), "t", b"hello", "text/plain") == "hello"
    assert serializers.loads_as(Model(bytes), "t", b"\xff", "") == b"\xff"
    assert serializers.loads_as(Model(dict[str, int]), "t", b"\x81\xa1x\x01", "application/msgpack") == {"x": 1}
    with pytest.raises(SerializationError, match="no valid int"):
        serializers.loads_as(Model(int), "t", b"hello", "text/plain")


def test_a_type_without_json_is_refused() -> None:
    class Socket:
        pass

    with pytest.raises(InvalidArgumentError, match=r"Socket cannot be the type of a message: .* dataclass"):
        Model(Socket)
    with pytest.raises(InvalidArgumentError, match="cannot be the type of a message"):
        Model(type(lambda: None))


def test_without_pydantic_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(MissingExtraError, match=r"the type Cart of a message .* pip install 'litemq\[pydantic\]'"):
        Model(Cart)
