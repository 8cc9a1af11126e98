"""Serializers: values to bodies and back.

The message property ``content-type`` names the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from litemq.client.messages.model import Model
from litemq.errors import LiteMQError, MissingExtraError, SerializationError

T = TypeVar("T")
R = TypeVar("R")

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
        # NaN and infinity are no JSON: other languages could not read them.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

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
                f"topic {topic!r}: {type(serializer).__name__} cannot write a value of type {type(value).__name__}: "
                f"{error}. {_advice(serializer)}"
            ) from error

    def loads_as(self, model: Model[T], topic: str, body: bytes, content_type: str) -> T:
        """Deserialize ``body`` as a value of the type of ``model``.

        A body without a content type is JSON, unless the type is ``bytes``.
        """
        if _media_type(content_type) in ("", model.content_type) and model.declared is not bytes:
            return _loaded(topic, model, lambda: model.loads(body))
        value = self.loads(topic, body, content_type)
        return _loaded(topic, model, lambda: model.check(value))

    def loads(self, topic: str, body: bytes, content_type: str) -> Any:
        """Deserialize ``body`` with the serializer of the topic, or else of ``content_type``."""
        serializer = self._by_topic.get(topic)
        content_type = _media_type(content_type)
        if serializer is None or (content_type and serializer.content_type != content_type):
            serializer = self._by_content_type.get(content_type)
            if serializer is None and content_type == MsgPack.content_type:
                serializer = self._by_content_type[content_type] = MsgPack()
            if serializer is None:
                raise SerializationError(
                    f"topic {topic!r}: no serializer for {content_type!r}: "
                    "use message.body, or choose a serializer for the topic"
                )
        return _loaded(topic, serializer, lambda: serializer.loads(body))


def _loaded(topic: str, serializer: Serializer, load: Callable[[], R]) -> R:
    try:
        return load()
    except LiteMQError:
        raise
    except Exception as error:
        what = f"the body is no valid {serializer.name}" if isinstance(serializer, Model) else ""
        what = what or f"{type(serializer).__name__} cannot read the body"
        raise SerializationError(f"topic {topic!r}: {what}: {error}") from error


def _media_type(content_type: str) -> str:
    """Return ``content_type`` without ``charset=utf-8`` and other parameters."""
    if ";" not in content_type:
        return content_type
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charset = next((part[8:].strip("\"' ") for part in parameters if part.startswith("charset=")), "utf-8")
    return media_type if charset in ("utf-8", "utf8", "us-ascii") else content_type


def _advice(serializer: Serializer) -> str:
    if isinstance(serializer, Model):
        return f"Send a value of type {serializer.name}"
    return (
        "Send bytes, a string or a JSON value; for dataclasses, pydantic models, dates and other types, use "
        "mq.topic(name, type)"
    )
