"""The queue that a send goes to, from the bytes of its header."""

from __future__ import annotations

from typing import Final

from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.broker.runtime.request_header import parse
from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import SendRequest
from litemq.types import is_system_name

__all__ = ["SendDestinations"]

_KNOWN_HEADERS: Final = 10_000
_MAX_KNOWN_BYTES: Final = 512  # a longer header has fields that no client sends


class SendDestinations(QueueListener):
    """Parses each header once.

    Headers of sends repeat: few producers, few queues, always the same bytes.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._topics = context.topics
        self.known: dict[
            bytes, tuple[int, int]
        ] = {}  # topic id and queue id by header; read directly by the broker's hot path

    def find(self, header: bytes) -> tuple[int, int]:
        """Return the topic id and queue id that ``header`` names; remember them if it is short."""
        request = parse(SendRequest, header)
        topic = self._topics.find_with_queue(request.topic, request.queue_id)
        if is_system_name(topic.name):
            raise InvalidArgumentError(f"topic {topic.name!r} is reserved for the broker: send to another topic")
        destination = topic.topic_id, request.queue_id
        if len(header) <= _MAX_KNOWN_BYTES:
            if len(self.known) >= _KNOWN_HEADERS:
                self.known.clear()
            self.known[header] = destination
        return destination

    def on_topics_changed(self) -> None:
        self.known.clear()
