"""Values of a declared type as JSON: pydantic models, dataclasses, and standard types."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from litemq.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

__all__ = ["Model", "model_of"]

T = TypeVar("T")


class Model(Generic[T]):
    """Values of one type, as JSON; needs the extra ``pydantic``.

    The type is a pydantic model, a dataclass, or a standard type such as ``datetime``, ``UUID``,
    ``Decimal``, an ``Enum``, and lists and dicts of them.
    """

    content_type = "application/json"

    def __init__(self, declared: type[T]) -> None:
        """Raise ``InvalidArgumentError`` if values of the type cannot be written as JSON."""
        try:
            import pydantic
        except ImportError:
            raise MissingExtraError(f"the type {_name(declared)} of a message", "pydantic") from None
        self.declared = declared
        # pydantic would also make a model of a dict.
        self._instances = declared if _is_model(declared, pydantic.BaseModel) else object
        try:
            self._adapter: TypeAdapter[T] = pydantic.TypeAdapter(declared)
            self.schema: dict[str, Any] = self._adapter.json_schema()
        except pydantic.errors.PydanticUserError as error:
            raise InvalidArgumentError(
                f"{self.name} cannot be the type of a message: {_first_line(error)}. "
                "Use a pydantic model, a dataclass or a standard type"
            ) from error

    @property
    def name(self) -> str:
        """The name of the type."""
        return _name(self.declared)

    def dumps(self, value: Any, /) -> bytes:
        """Write ``value``. Raise if it is not of the type, or not a JSON value, such as NaN."""
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        if not isinstance(value, self._instances):
            raise TypeError(f"expected {self.name}, got {type(value).__name__}")
        try:
            checked = self._adapter.validate_python(value, strict=True)
            plain = self._adapter.dump_python(checked, mode="json", by_alias=True, warnings="error")
        except ValidationError as error:
            raise TypeError(_faults(error)) from None
        except PydanticSerializationError:
            raise TypeError(self._wrong_field(value)) from None
        # pydantic's own JSON would turn NaN into null.
        body = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        if b"null" in body and _has_nan(self._adapter.dump_python(checked, warnings=False)):
            raise ValueError("NaN and infinity are not JSON compliant")  # in a field of any type
        try:
            self._adapter.validate_json(body)  # instances are not checked when their fields are set
        except ValidationError as error:
            raise TypeError(_faults(error)) from None
        return body

    def _wrong_field(self, value: Any) -> str:
        """Describe the field that has another type than declared: instances are not checked."""
        from pydantic import ValidationError

        try:
            self._adapter.validate_python(self._adapter.dump_python(value, by_alias=True, warnings=False))
        except ValidationError as error:
            return _faults(error)
        return f"a field of {self.name} has another type than declared"

    def loads(self, body: bytes, /) -> T:
        """Read and check a JSON body."""
        from pydantic import ValidationError

        try:
            return self._adapter.validate_json(body)
        except ValidationError as error:
            raise ValueError(_faults(error)) from None

    def check(self, value: Any) -> T:
        """Convert ``value``, which another serializer has read, to the type."""
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise ValueError(_faults(error)) from None


def model_of(declared: type[T]) -> Model[T]:
    """Return the ``Model`` of a type; building one takes long."""
    return _new_model(declared)  # type: ignore[arg-type]  # a type is hashable


@lru_cache(maxsize=256)
def _new_model(declared: Any) -> Model[Any]:
    return Model(declared)


def _faults(error: ValidationError) -> str:
    """Describe the faults without the values, which may be secret."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" if fault["loc"] else fault["msg"]
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_has_nan, value.values()))
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(_has_nan, value))


def _is_model(declared: Any, base: type) -> bool:
    return isinstance(declared, type) and issubclass(declared, base)


def _name(declared: Any) -> str:
    return getattr(declared, "__name__", None) or str(declared)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
