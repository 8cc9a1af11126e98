"""The queue that a send goes to, from the bytes of its header."""

from __future__ import annotations

from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.header_cache import HeaderCache
from litemq.broker.runtime.queue_events import QueueListener
from litemq.broker.runtime.request_header import parse
from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import SendRequest
from litemq.types import is_system_name

__all__ = ["SendDestinations"]


class SendDestinations(QueueListener):
    """Parses each header once."""

    def __init__(self, context: BrokerContext) -> None:
        self._topics = context.topics
        # Topic id and queue id by header; read directly by the broker's hot path.
        self.known: HeaderCache[tuple[int, int]] = HeaderCache()

    def find(self, header: bytes) -> tuple[int, int]:
        """Return the topic id and queue id that ``header`` names; remember them if it is short."""
        request = parse(SendRequest, header)
        topic = self._topics.find_with_queue(request.topic, request.queue_id)
        if is_system_name(topic.name):
            raise InvalidArgumentError(f"topic {topic.name!r} is reserved for the broker: send to another topic")
        destination = topic.topic_id, request.queue_id
        self.known.remember(header, destination)
        return destination

    def on_topics_changed(self) -> None:
        self.known.clear()
