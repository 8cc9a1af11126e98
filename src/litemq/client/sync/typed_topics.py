"""Typed topics of the synchronous client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, Unpack

from litemq.client.config import DurabilityName
from litemq.client.handlers.subscription import HandlerOptions
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.messages.send_options import SendOptions
from litemq.client.sync.loop_thread import LoopThread
from litemq.client.typed_topics.topic import AsyncTopic, Subscribe

__all__ = ["Topic"]

T = TypeVar("T")


class Topic(Generic[T]):
    """A topic whose bodies are values of one type; ``mq.topic`` returns it."""

    def __init__(
        self, wrapped: AsyncTopic[T], thread: LoopThread, subscriber: Callable[..., Callable[[Any], Any]]
    ) -> None:
        """``subscriber`` is the method of the client."""
        self.name = wrapped.name
        self._wrapped = wrapped
        self._thread = thread
        self._subscriber = subscriber

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the type."""
        return self._wrapped.schema

    def declare(self) -> None:
        """Create the topic if it is missing, and store the schema of the type at the topic.

        The first ``send`` and ``mq.run`` do this.

        Raises:
            IncompatibleSchemaError: Stored messages could not be read with this type.
            TopicNotFoundError: The topic does not exist, and the broker does not create topics on
                demand.
            NoRouteError, NetworkError: A broker of the topic cannot be reached.
            ClientClosedError: The client is not open.
        """
        self._thread.run(self._wrapped.declare())

    def send(self, value: T, **options: Unpack[SendOptions]) -> SendReceipt:
        """Send a value and wait until it is stored.

        Args:
            value: A value of the topic's type.
            options: The keyword options of ``mq.send``.

        Raises:
            IncompatibleSchemaError: Stored messages could not be read with this type.
            SerializationError: ``value`` is not of the type.
            LiteMQError: The message could not be sent. See ``mq.send`` for the classes.
        """
        return self._thread.run(self._wrapped.send(value, **options))

    def send_batch(self, values: Sequence[T], *, durability: DurabilityName | None = None) -> list[SendReceipt]:
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
        return self._thread.run(self._wrapped.send_batch(values, durability=durability))

    def subscriber(self, *, group_id: str, **options: Unpack[HandlerOptions]) -> Subscribe[T, Any]:
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
        return self._wrapped.with_checked_parameter(self._subscriber(self.name, group_id=group_id, **options))

    def __repr__(self) -> str:
        return repr(self._wrapped).replace("AsyncTopic", "Topic", 1)
