"""Whether messages of an old type can be read with a new one, and the field that is in the way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from litemq.errors import InvalidArgumentError
from litemq.schemas.compatibility import check_schema, find_incompatibilities


def _schema(declared: Any) -> dict[str, Any]:
    return TypeAdapter(declared).json_schema()


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Few(Enum):
    RED = "red"


class Old(BaseModel):
    id: int
    note: str = ""


class WithOptional(BaseModel):
    id: int
    note: str = ""
    more: list[int] = []


class WithRequired(BaseModel):
    id: int
    note: str = ""
    total: Decimal


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: int


class Less(BaseModel):
    id: int


class NowRequired(BaseModel):
    id: int
    note: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int


class OpenWithField(Open):
    y: int = 0


class Renamed(BaseModel):
    key: int
    note: str = ""


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class OtherTree:
    value: float
    children: list[OtherTree] = field(default_factory=list)


@dataclass
class BadTree:
    value: str
    children: list[BadTree] = field(default_factory=list)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Old, Old),
        (Old, WithOptional),
        (WithOptional, Old),  # the field is ignored
        (Old, Less),
        (NowRequired, Old),
        (int, float),
        (int, int | str),
        (int, Any),
        (Few, Colour),
        (Literal["a"], Literal["a", "b"]),
        (Literal["a"], str),
        (list[int], list[float]),
        (dict[str, int], dict[str, int | None]),
        (dict[str, int], dict),
        (tuple[int, str], tuple[float, str]),
        (Annotated[int, Field(ge=5)], Annotated[int, Field(ge=1)]),
        (Annotated[str, Field(max_length=5)], str),
        (datetime, datetime),
        (datetime, str),
        (Tree, OtherTree),
        (int | None, float | str | None),
    ],
)
def test_compatible(old: Any, new: Any) -> None:
    assert find_incompatibilities(_schema(old), _schema(new)) == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (Old, WithRequired, "field 'total' is required, and earlier messages may lack it: give it a default"),
        (Old, NowRequired, "field 'note' is required, and earlier messages may lack it: give it a default"),
        (Old, Renamed, "field 'key' is required, and earlier messages may lack it: give it a default"),
        (Old, Strict, "field 'note' was removed, and the new schema refuses fields that it does not know"),
        (int, str, "the value was integer and is now string"),
        (float, int, "the value was number and is now integer"),
        (int | None, int, "the value was null and is now integer"),
        (str, int | None, "the value no longer accepts string"),
        (Colour, Few, 'the value no longer accepts "blue"'),
        (str, Few, 'the value accepted any value and now only "red"'),
        (list[int], list[str], "field '[]' was integer and is now string"),
        (dict[str, int], dict[str, str], "field '*' was integer and is now string"),
        (tuple[int, str], tuple[int, int], "field '1' was string and is now integer"),
        (tuple[int, str], tuple[int], "had 2 elements of fixed types and now has 1"),
        (int, Annotated[int, Field(ge=1)], "has the minimum 1, and was not limited"),
        (Annotated[int, Field(le=9)], Annotated[int, Field(le=5)], "has the maximum 5, and was 9"),
        (str, datetime, "has another format: 'date-time', and was 'without'"),
        (datetime, date, "has another format: 'date', and was 'date-time'"),
        (Annotated[str, Field(pattern="a")], Annotated[str, Field(pattern="b")], "has another pattern"),
        (Tree, BadTree, "field 'value' was integer and is now string"),
        (dict, dict[str, int], "field '*' accepts fewer values"),
        (Open, OpenWithField, "field 'y' accepts fewer values"),
        (Any, int, "the value was any value and is now integer"),
    ],
)
def test_incompatible(old: Any, new: Any, reason: str) -> None:
    assert reason in "; ".join(find_incompatibilities(_schema(old), _schema(new)))


def test_a_field_of_a_field_is_named() -> None:
    old = make_dataclass("Cart", [("order", Old), ("lines", list[Old])])
    new = make_dataclass("Cart", [("order", WithRequired), ("lines", list[WithRequired])])
    found = find_incompatibilities(_schema(old), _schema(new))
    assert [each.split(" is ")[0] for each in found] == ["field 'lines.[].total'"]  # once for each type


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ("[" * 70_000, "at most"), ("[" * 60_000, "not JSON")],
)
def test_a_text_that_is_no_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        check_schema(text)


@pytest.mark.parametrize(
    "hostile",
    [
        {"$ref": "#"},
        {"$ref": "#/a/b"},
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    ],
)
def test_references_that_never_end_do(hostile: dict[str, Any]) -> None:
    find_incompatibilities(hostile, json.loads(json.dumps(hostile)))
    find_incompatibilities(hostile, {"type": "integer"})
    find_incompatibilities({"type": "integer"}, hostile)


_KEYWORDS = st.sampled_from(
    [
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "anyOf",
        "allOf",
        "$ref",
        "$defs",
        "minimum",
        "maxLength",
        "format",
    ]
)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "array", "string", "#/$defs", "#/type"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, max_size=4),
)


@given(st.dictionaries(_KEYWORDS, _ANY), st.dictionaries(_KEYWORDS, _ANY))
def test_keywords_may_have_any_value(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert all(find_incompatibilities(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"minimum": 3}, {"minimum": "a"}),
        ({"type": 3}, {"type": "string"}),
        ({"type": [{}]}, {"type": [1]}),
        ({"type": "object", "properties": 3}, {"type": "object", "properties": [1]}),
        ({"type": "object", "required": 3}, {"type": "object", "required": ["a"]}),
        ({"type": "array", "prefixItems": 3}, {"type": "array", "prefixItems": {}}),
    ],
)
def test_a_keyword_with_an_invalid_value_is_incompatible(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert "a keyword has a value that JSON Schema does not allow" in find_incompatibilities(old, new)


_SCALARS: list[Any] = [int, float, str, bool, Decimal, datetime, int | None, Colour, Few, Literal["red"]]
_FIELDS = st.dictionaries(
    st.sampled_from("abcd"), st.tuples(st.sampled_from(_SCALARS), st.booleans()), min_size=1, max_size=4
)
_VALUES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["red", "blue", "x", "1", "2026-01-31T12:00:00Z"]),
    st.booleans(),
    st.none(),
    st.floats(0, 1),
)


def _dataclass(fields: dict[str, tuple[Any, bool]]) -> Any:
    ordered = sorted(fields.items(), key=lambda each: not each[1][1])
    return make_dataclass(
        "Generated",
        [
            (name, declared) if required else (name, declared, field(default=None))
            for name, (declared, required) in ordered
        ],
    )


@given(_FIELDS, _FIELDS, st.dictionaries(st.sampled_from("abcd"), _VALUES))
def test_what_was_valid_stays_readable(
    before: dict[str, tuple[Any, bool]], after: dict[str, tuple[Any, bool]], value: dict[str, Any]
) -> None:
    """If the verdict is "compatible", a body that the old type has written is valid for the new."""
    old, new = TypeAdapter(_dataclass(before)), TypeAdapter(_dataclass(after))
    try:
        written = old.dump_json(old.validate_python(value), exclude_defaults=True, warnings=False)
    except ValidationError:
        return
    if not find_incompatibilities(old.json_schema(), new.json_schema()):
        new.validate_json(written)
