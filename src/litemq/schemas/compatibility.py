"""Backward compatibility: a reader with the new schema accepts all values of the old one.

The comparison is structural. It knows the keywords that pydantic writes. If other keywords differ,
the schemas count as incompatible: a doubtful change is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from litemq.errors import InvalidArgumentError

__all__ = ["check_schema", "find_incompatibilities"]

MAX_SCHEMA_BYTES: Final = 65_536
_MAX_DEPTH: Final = 64
_MAX_STEPS: Final = 20_000  # a hostile schema may have exponentially many paths
_MAX_FINDINGS: Final = 10

Schema = Mapping[str, Any]

# Keywords that describe a value and accept any.
_ANNOTATIONS: Final = frozenset(
    [
        "$schema",
        "$id",
        "$defs",
        "$comment",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "discriminator",
        "readOnly",
        "writeOnly",
    ]
)
# The new limit must not be higher, or lower, than the old one.
_LOWER_LIMITS: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_LIMITS: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_STRUCTURE: Final = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
]
_COMPARED: Final = frozenset((*_STRUCTURE, *_LOWER_LIMITS, *_UPPER_LIMITS))


def check_schema(text: str) -> Schema:
    """Parse the JSON schema ``text``. Raise ``InvalidArgumentError`` if it is none."""
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidArgumentError(f"the schema has {len(text)} characters: at most {MAX_SCHEMA_BYTES} are allowed")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the schema is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise InvalidArgumentError("the schema is not a JSON object")
    return schema


def find_incompatibilities(old: Schema, new: Schema) -> list[str]:
    """Return why values of ``old`` cannot be read with ``new``; empty if all can."""
    found: list[str] = []
    try:
        for reason in _Comparison(old, new).compare(old, new, ""):
            found.append(reason)
            if len(found) == _MAX_FINDINGS:
                break
    except (TypeError, AttributeError, RecursionError):  # such as "required": 3
        found.append("a keyword has a value that JSON Schema does not allow")
    return found


class _Comparison:
    """Compares two schemas. ``old`` and ``new`` are the roots, for references."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new
        # Pairs that were compared, or are: recursive types end here.
        self._assumed: set[tuple[int, int]] = set()
        self._kept: list[Schema] = []  # an id belongs to one object while it exists
        self._depth = self._steps = 0

    def compare(self, old: Any, new: Any, path: str) -> Iterator[str]:
        """Yield why a value of ``old`` at ``path`` is not accepted by ``new``."""
        if new is True or new == {}:
            return
        if old is True or new is False or not isinstance(old, Mapping) or not isinstance(new, Mapping):
            if old is not False:
                yield f"{_at(path)} accepts fewer values"
            return
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        pair = (id(old), id(new))
        if pair in self._assumed:
            return
        self._steps += 1
        if self._depth == _MAX_DEPTH or self._steps > _MAX_STEPS:
            yield f"{_at(path)} is too complex to compare"
            return
        self._assumed.add(pair)
        self._kept += (old, new)
        self._depth += 1
        yield from self._compare(old, new, path)
        self._depth -= 1

    def _compare(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        old_branches, new_branches = _branches(old), _branches(new)
        if old_branches is not None:
            for branch in old_branches:
                yield from self.compare(_branch(self._old, old, branch), new, path)
            return
        if new_branches is not None:
            if not any(self._accepts(old, _branch(self._new, new, each), path) for each in new_branches):
                yield f"{_at(path)} no longer accepts {_kind(old)}"
            return
        yield from self._compare_plain(old, new, path)

    def _accepts(self, old: Schema, new: Schema, path: str) -> bool:
        assumed, depth = set(self._assumed), self._depth
        accepted = next(self.compare(old, new, path), None) is None
        if not accepted:
            self._assumed, self._depth = assumed, depth  # the comparison was left on its way
        return accepted

    def _compare_plain(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        old_types, new_types = _types(old), _types(new)
        lost = sorted(each for each in old_types if not _accepts_type(each, new_types))
        if lost:
            yield f"{_at(path)} was {' or '.join(sorted(old_types))} and is now {' or '.join(sorted(new_types))}"
            return
        yield from _compare_choices(old, new, path)
        yield from _compare_limits(old, new, path)
        for keyword in sorted({*old, *new} - _COMPARED - _ANNOTATIONS):
            if keyword in new and new[keyword] != old.get(keyword):
                yield f"{_at(path)} has another {keyword}: {new[keyword]!r}, and was {old.get(keyword, 'without')!r}"
        if "object" in old_types:
            yield from self._compare_objects(old, new, path)
        if "array" in old_types:
            yield from self._compare_arrays(old, new, path)

    def _compare_objects(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        had: Schema = old.get("properties", {})
        has: Schema = new.get("properties", {})
        for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
            yield f"{_at(_child(path, name))} is required, and earlier messages may lack it: give it a default"
        extra = new.get("additionalProperties", True)
        # Of a dict, or of a type that keeps unknown fields. Others write only declared fields.
        others = old.get("additionalProperties", False)
        for name in sorted(set(has) - set(had)):
            if others is not False:
                yield from self.compare(others, has[name], _child(path, name))
        for name in sorted(had):
            if name in has:
                yield from self.compare(had[name], has[name], _child(path, name))
            elif extra is False:
                yield f"{_at(_child(path, name))} was removed, and the new schema refuses fields that it does not know"
            elif extra is not True:
                yield from self.compare(had[name], extra, _child(path, name))
        if others is not False:
            yield from self.compare(others, extra, _child(path, "*"))

    def _compare_arrays(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        had, has = old.get("prefixItems", []), new.get("prefixItems", [])
        if len(had) != len(has):
            yield f"{_at(path)} had {len(had)} elements of fixed types and now has {len(has)}"
            return
        for number, (before, after) in enumerate(zip(had, has, strict=True)):
            yield from self.compare(before, after, _child(path, str(number)))
        if not had or "items" in old:
            yield from self.compare(old.get("items", True), new.get("items", True), _child(path, "[]"))


def _compare_choices(old: Schema, new: Schema, path: str) -> Iterator[str]:
    choices = _choices(new)
    if choices is None:
        return
    had = _choices(old)
    if had is None:
        yield f"{_at(path)} accepted any value and now only {_listed(choices)}"
        return
    lost = [each for each in had if each not in choices]
    if lost:
        yield f"{_at(path)} no longer accepts {_listed(lost)}"


def _compare_limits(old: Schema, new: Schema, path: str) -> Iterator[str]:
    is_tighter: Callable[[Any, Any], bool]
    for keywords, is_tighter in ((_LOWER_LIMITS, lambda n, o: n > o), (_UPPER_LIMITS, lambda n, o: n < o)):
        for keyword in keywords:
            if keyword in new and (keyword not in old or is_tighter(new[keyword], old[keyword])):
                before = old.get(keyword, "not limited")
                yield f"{_at(path)} has the {keyword} {new[keyword]}, and was {before}"


def _resolved(root: Schema, schema: Schema) -> Schema:
    """Follow references inside ``root``, and merge an ``allOf`` with one part."""
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref")
        parts = schema.get("allOf")
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Any = root
            for name in reference[2:].split("/"):
                key = name.replace("~1", "/").replace("~0", "~")
                target = target.get(key) if isinstance(target, Mapping) else None
            schema = target if isinstance(target, Mapping) else {}
        elif isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], Mapping):
            schema = {**{key: value for key, value in schema.items() if key != "allOf"}, **parts[0]}
        else:
            break
    return schema


def _branches(schema: Schema) -> list[Any] | None:
    branches = schema.get("anyOf", schema.get("oneOf"))
    return branches if isinstance(branches, list) else None


def _branch(root: Schema, schema: Schema, branch: Any) -> Any:
    """Return one branch of ``schema``, with the constraints beside its ``anyOf``."""
    beside = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf") and key not in _ANNOTATIONS}
    if not beside or not isinstance(branch, Mapping):
        return branch
    return {**beside, **_resolved(root, branch)}


def _types(schema: Schema) -> frozenset[str]:
    declared = schema.get("type")
    if declared is None:
        choices = _choices(schema)
        if choices is not None:
            return frozenset(map(_type_of, choices))
        return frozenset(("any value",))
    return frozenset([declared] if isinstance(declared, str) else declared)


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"


def _accepts_type(old: str, new: frozenset[str]) -> bool:
    return old in new or "any value" in new or (old == "integer" and "number" in new)


def _choices(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    choices = schema.get("enum")
    return choices if isinstance(choices, list) else None


def _kind(schema: Schema) -> str:
    choices = _choices(schema)
    return " or ".join(sorted(_types(schema))) if choices is None else _listed(choices)


def _listed(values: list[Any]) -> str:
    return ", ".join(json.dumps(each, ensure_ascii=False) for each in values[:5]) + (", …" if len(values) > 5 else "")


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _at(path: str) -> str:
    return f"field {path!r}" if path else "the value"
