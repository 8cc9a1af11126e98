"""Serializers: values to bodies and back.

The message property ``content-type`` names the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from litemq.errors import LiteMQError, MissingExtraError, SerializationError

if TYPE_CHECKING:
    from pydantic import BaseModel

    ModelT = TypeVar("ModelT", bound=BaseModel)
else:
    ModelT = TypeVar("ModelT")

__all__ = ["CONTENT_TYPE", "Bytes", "Json", "Model", "MsgPack", "Serializer", "Serializers", "Text"]

CONTENT_TYPE: Final = "content-type"


class Serializer(Protocol):
    """A format for values."""

    @property
    def content_type(self) -> str:
        """The value of the message property ``content-type``; empty for none."""
        ...

    def dumps(self, value: Any, /) -> bytes: ...

    def loads(self, body: bytes, /) -> Any: ...


class Bytes:
    """Bytes, unchanged."""

    content_type = ""

    def dumps(self, value: Any, /) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected bytes, got {type(value).__name__}")
        return bytes(value)

    def loads(self, body: bytes, /) -> Any:
        return body


class Text:
    """Strings, as UTF-8."""

    content_type = "text/plain"

    def dumps(self, value: Any, /) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"expected a string, got {type(value).__name__}")
        return value.encode()

    def loads(self, body: bytes, /) -> Any:
        return body.decode()


class Json:
    """JSON, compact."""

    content_type = "application/json"

    def dumps(self, value: Any, /) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def loads(self, body: bytes, /) -> Any:
        return json.loads(body)


class MsgPack:
    """MessagePack; needs the extra ``msgpack``."""

    content_type = "application/msgpack"

    def __init__(self) -> None:
        try:
            import msgpack
        except ImportError:
            raise MissingExtraError("the serializer MsgPack", "msgpack") from None
        self._msgpack: Any = msgpack

    def dumps(self, value: Any, /) -> bytes:
        packed: bytes = self._msgpack.packb(value)
        return packed

    def loads(self, body: bytes, /) -> Any:
        return self._msgpack.unpackb(body)


class Model(Generic[ModelT]):
    """Instances of one pydantic model, as JSON."""

    content_type = "application/json"

    def __init__(self, model: type[ModelT]) -> None:
        self._model = model

    def dumps(self, value: Any, /) -> bytes:
        if not isinstance(value, self._model):
            raise TypeError(f"expected {self._model.__name__}, got {type(value).__name__}")
        return value.model_dump_json().encode()

    def loads(self, body: bytes, /) -> ModelT:
        return self._model.model_validate_json(body)


class Serializers:
    """The serializers by topic. Without one, the type of the value decides: bytes, text or JSON."""

    def __init__(self, by_topic: Mapping[str, Serializer] | None = None) -> None:
        self._by_topic = dict(by_topic or {})
        self._by_type: dict[type, Serializer] = {bytes: Bytes(), bytearray: Bytes(), memoryview: Bytes(), str: Text()}
        self._json = Json()
        self._by_content_type: dict[str, Serializer] = {
            "": Bytes(),
            Text.content_type: Text(),
            Json.content_type: self._json,
        }

    @property
    def has_choices(self) -> bool:
        """Whether any topic has a serializer of its own."""
        return bool(self._by_topic)

    def choose(self, topic: str, serializer: Serializer) -> None:
        """Use ``serializer`` for ``topic`` from now on."""
        self._by_topic[topic] = serializer

    def dumps(self, topic: str, value: Any) -> tuple[bytes, str]:
        """Serialize ``value``; return the body and its content type."""
        serializer = self._by_topic.get(topic) or self._by_type.get(type(value), self._json)
        try:
            return serializer.dumps(value), serializer.content_type
        except LiteMQError:
            raise
        except Exception as error:
            raise SerializationError(
                f"topic {topic!r}: {type(serializer).__name__} cannot write a {type(value).__name__}: {error}. "
                "Send bytes, a string or a JSON value, or choose a serializer for the topic"
            ) from error

    def loads(self, topic: str, body: bytes, content_type: str) -> Any:
        """Deserialize ``body`` with the serializer of the topic, or else of ``content_type``."""
        serializer = self._by_topic.get(topic)
        if serializer is None or (content_type and serializer.content_type != content_type):
            serializer = self._by_content_type.get(content_type)
            if serializer is None and content_type == MsgPack.content_type:
                serializer = self._by_content_type[content_type] = MsgPack()
            if serializer is None:
                raise SerializationError(
                    f"topic {topic!r}: no serializer for {content_type!r}: "
                    "use message.body, or choose a serializer for the topic"
                )
        try:
            return serializer.loads(body)
        except LiteMQError:
            raise
        except Exception as error:
            raise SerializationError(
                f"topic {topic!r}: {type(serializer).__name__} cannot read the body: {error}"
            ) from error
