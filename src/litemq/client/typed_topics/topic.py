"""A typed topic: values of one type in, values of the same type out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from litemq.client.config import DurabilityName
from litemq.client.engine.engine import Engine
from litemq.client.engine.topic_declaration import declare_topic
from litemq.client.engine.topics import TopicChanges, TopicSettings, schema_text
from litemq.client.handlers.parameters import resolved_hints
from litemq.client.handlers.subscription import HandlerOptions
from litemq.client.messages.message import Message
from litemq.client.messages.model import Model
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.send_options import SendOptions
from litemq.errors import InvalidArgumentError

__all__ = ["AsyncTopic", "Subscribe"]

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")


class Subscribe(Protocol[T, M]):
    """The decorator of a handler: a function of a value, or of a value and its message."""

    @overload
    def __call__(self, handler: Callable[[T], R], /) -> Callable[[T], R]: ...

    @overload
    def __call__(self, handler: Callable[[T, M], R], /) -> Callable[[T, M], R]: ...


class TopicHost(Protocol):
    """The client that a typed topic belongs to."""

    def send(self, topic: str, body: Any, **options: Unpack[SendOptions]) -> Awaitable[SendReceipt]: ...

    def send_batch(
        self, topic: str, messages: Sequence[OutgoingMessage], *, durability: DurabilityName | None = None
    ) -> Awaitable[list[SendReceipt]]: ...

    def subscriber(self, topic: str, *, group_id: str, **options: Unpack[HandlerOptions]) -> Callable[[Any], Any]: ...

    def _opened(self) -> Engine: ...


class AsyncTopic(Generic[T]):
    """A topic whose bodies are values of one type; ``mq.topic`` returns it."""

    def __init__(self, host: TopicHost, name: str, model: Model[T]) -> None:
        self.name = name
        self._host = host
        self.model = model
        self._declaring = asyncio.Lock()
        self._is_declared = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the type."""
        return self.model.schema

    async def declare(self) -> None:
        """Create the topic if it is missing, and store the schema of the type at the topic.

        The first ``send`` and ``mq.run`` do this.

        Raises:
            IncompatibleSchemaError: Stored messages could not be read with this type.
            TopicNotFoundError: The topic does not exist, and the broker does not create topics on
                demand.
            NoRouteError, NetworkError: A broker of the topic cannot be reached.
            ClientClosedError: The client is not open.
        """
        async with self._declaring:
            if not self._is_declared:
                await self._store_schema()
                self._is_declared = True

    async def _store_schema(self) -> None:
        text = schema_text(self.model.schema)

        def missing(settings: TopicSettings) -> TopicChanges | None:
            return None if text in settings.schemas else TopicChanges(schema=text)

        await declare_topic(self._host._opened(), self.name, missing)  # noqa: SLF001

    async def send(self, value: T, **options: Unpack[SendOptions]) -> SendReceipt:
        """Send a value and wait until it is stored.

        Args:
            value: A value of the topic's type.
            options: The keyword options of ``mq.send``.

        Raises:
            IncompatibleSchemaError: Stored messages could not be read with this type.
            SerializationError: ``value`` is not of the type.
            LiteMQError: The message could not be sent. See ``mq.send`` for the classes.
        """
        if not self._is_declared:
            await self.declare()
        return await self._host.send(self.name, value, **options)

    async def send_batch(self, values: Sequence[T], *, durability: DurabilityName | None = None) -> list[SendReceipt]:
        """Send values and wait until all are stored or have failed.

        Args:
            values: Values of the topic's type.
            durability: As in ``mq.send``, for all values.

        Returns:
            The receipts, in the order of ``values``.

        Raises:
            IncompatibleSchemaError: Stored messages could not be read with this type.
            LiteMQError: Some values failed. See ``mq.send_batch``.
        """
        if not self._is_declared:
            await self.declare()
        return await self._host.send_batch(self.name, [OutgoingMessage(each) for each in values], durability=durability)

    def subscriber(self, *, group_id: str, **options: Unpack[HandlerOptions]) -> Subscribe[T, Message]:
        """Declare a handler of values: ``@orders.subscriber(group_id="billing")``.

        The parameter of the handler must be declared with the topic's type. A second parameter
        ``message: Message`` gets the message.

        Args:
            group_id: The consumer group.
            options: The options of ``mq.subscriber``.

        Returns:
            The decorator, which returns the function unchanged.

        Raises:
            InvalidArgumentError: An argument is invalid, the group has a handler for the topic, or
                the parameter has another type.
        """
        return self.with_checked_parameter(self._host.subscriber(self.name, group_id=group_id, **options))

    def with_checked_parameter(self, subscribe: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return ``subscribe`` for handlers that take values of the topic's type only."""

        def check_and_subscribe(handler: Callable[..., Any]) -> Any:
            self._check_parameter(handler)
            return subscribe(handler)

        return check_and_subscribe

    def _check_parameter(self, handler: Callable[..., Any]) -> None:
        parameter = next(iter(inspect.signature(handler).parameters), "")
        if resolved_hints(handler).get(parameter) != self.model.declared:
            raise InvalidArgumentError(
                f"{getattr(handler, '__name__', 'the handler')}(): declare its first parameter as "
                f"{self.model.name}, the type of topic {self.name!r}"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self.model.name}>"
