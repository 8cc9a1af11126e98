"""``mq.topic``: the part of the client that makes typed topics."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from litemq.client.messages.model import model_of
from litemq.client.messages.serializers import Serializer
from litemq.client.typed_topics.topic import AsyncTopic, TopicHost
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["TypedTopicApi"]

T = TypeVar("T")


class TypedTopicApi:
    """The part of ``AsyncClient`` that makes typed topics."""

    def __init__(self) -> None:
        self._typed_topics: dict[str, AsyncTopic[Any]] = {}
        super().__init__()

    def serializer(self, topic: str, serializer: Serializer) -> None:
        """Set the serializer of a topic."""
        raise NotImplementedError

    def topic(self, name: str, declared: type[T]) -> AsyncTopic[T]:
        """Return a topic whose bodies are values of one type: ``mq.topic("orders", Order)``.

        Its JSON schema is stored at the topic when the handle is first used. A later type must be
        able to read all stored messages. ``message.value`` of the topic's messages has the type,
        too.

        Args:
            name: The name of the topic.
            declared: A pydantic model, a dataclass, or a standard type such as ``datetime``.

        Raises:
            InvalidArgumentError: The type cannot be written as JSON, or this client uses the topic
                with another type.
            MissingExtraError: The extra ``pydantic`` is not installed.
        """
        known = self._typed_topics.get(check_name(name))
        model = model_of(declared)
        if known is None:
            known = self._typed_topics[name] = AsyncTopic(cast("TopicHost", self), name, model)
            self.serializer(name, model)
        elif known.model is not model:
            raise InvalidArgumentError(
                f"topic {name!r} has the type {known.model.name} in this client, not {model.name}: use one type"
            )
        return known

    async def _declare_typed_topics(self, names: set[str]) -> None:
        for name in sorted(names & self._typed_topics.keys()):
            await self._typed_topics[name].declare()
