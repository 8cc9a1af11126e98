"""The schemas that a topic keeps."""

import json

import pytest

from litemq.broker.topics.schema_versions import with_schema
from litemq.errors import IncompatibleSchemaError, InvalidArgumentError
from litemq.storage.state import Topic
from litemq.types import Compatibility

_TOPIC = Topic(16, "orders", 4)


def _schema(**fields: object) -> str:
    return json.dumps({"type": "object", **fields})


def test_a_new_schema_is_the_latest_and_a_known_one_changes_nothing() -> None:
    first, second = _schema(title="first"), _schema(title="second")
    topic = _TOPIC._replace(schemas=with_schema(_TOPIC, first, Compatibility.BACKWARD))
    topic = topic._replace(schemas=with_schema(topic, second, Compatibility.BACKWARD))
    assert topic.schemas == (first, second)
    assert with_schema(topic, first, Compatibility.BACKWARD) == (first, second)
    assert Topic.from_wire(topic.to_wire()) == topic


def test_an_incompatible_schema_is_refused_unless_it_is_not_checked() -> None:
    topic = _TOPIC._replace(schemas=(_schema(),))
    with pytest.raises(IncompatibleSchemaError, match=r"topic 'orders'.*field 'id' is required.*--compatibility none"):
        with_schema(topic, _schema(required=["id"]), Compatibility.BACKWARD)
    forced = _schema(required=["id"])
    assert with_schema(topic, forced, Compatibility.NONE) == (forced,)
    with pytest.raises(InvalidArgumentError, match="not JSON"):
        with_schema(topic, "{", Compatibility.NONE)


def test_a_new_schema_must_read_the_messages_of_all_versions() -> None:
    first = _schema(properties={"age": {"type": "integer"}})
    topic = _TOPIC._replace(schemas=(first, _schema()))
    with pytest.raises(IncompatibleSchemaError, match="field 'age' was integer and is now string"):
        with_schema(topic, _schema(properties={"age": {"type": "string"}}), Compatibility.BACKWARD)


def test_only_so_many_are_kept() -> None:
    topic = _TOPIC
    for number in range(20):
        schemas = with_schema(topic, _schema(title=str(number)), Compatibility.BACKWARD)
        topic = topic._replace(schemas=schemas)
    assert [json.loads(each)["title"] for each in topic.schemas] == [str(number) for number in range(4, 20)]
    for number in range(10):
        schemas = with_schema(topic, _schema(title=str(number), description="x" * 60_000), Compatibility.BACKWARD)
        topic = topic._replace(schemas=schemas)
    assert sum(map(len, topic.schemas)) <= 262_144


def test_a_hostile_schema_ends_soon() -> None:
    """Each level doubles the paths: a comparison without a limit would take years."""
    definitions = {
        f"d{level}": {
            "type": "object",
            "properties": {
                name: {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"type": "null"}], "minProperties": level}
                for name in "ab"
            },
        }
        for level in range(40)
    }
    old = json.dumps({"$ref": "#/$defs/d0", "$defs": definitions})
    new = json.dumps({"$ref": "#/$defs/d0", "$defs": definitions, "title": "new"})
    with pytest.raises(IncompatibleSchemaError):  # too complex to compare
        with_schema(_TOPIC._replace(schemas=(old,)), new, Compatibility.BACKWARD)
