"""The schemas of a topic: the latest, and earlier ones that running programs still use."""

from __future__ import annotations

from typing import Final

from litemq.errors import IncompatibleSchemaError
from litemq.schemas.compatibility import check_schema, find_incompatibilities
from litemq.storage.state import Topic
from litemq.types import Compatibility

__all__ = ["with_schema"]

_MAX_VERSIONS: Final = 16
_MAX_BYTES: Final = 262_144  # of all versions: the topic is one record


def with_schema(topic: Topic, schema: str, compatibility: int) -> tuple[str, ...]:
    """Return the schemas of ``topic`` with ``schema`` as the latest.

    A schema that the topic already has changes nothing: during an update, programs with the earlier
    type go on.

    Raises:
        IncompatibleSchemaError: Stored messages may not be readable with the new schema.
        InvalidArgumentError: It is no JSON schema.
    """
    new = check_schema(schema)
    if schema in topic.schemas:
        return topic.schemas
    if compatibility == Compatibility.NONE:
        return (schema,)  # programs with an earlier type have to declare it again
    for earlier in reversed(topic.schemas):
        reasons = find_incompatibilities(check_schema(earlier), new)
        if reasons:
            raise IncompatibleSchemaError(
                f"topic {topic.name!r}: messages that are stored cannot be read with the new schema: "
                f"{'; '.join(reasons)}. Change the type, use another topic, or replace the schema with "
                f"`litemq topic alter {topic.name} --compatibility none`"
            )
    versions = [*topic.schemas, schema][-_MAX_VERSIONS:]
    while sum(map(len, versions)) > _MAX_BYTES:
        del versions[0]
    return tuple(versions)
