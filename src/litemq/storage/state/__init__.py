"""What a broker knows besides its messages: a state machine over control records, and its rows in ``state.db``."""

from litemq.storage.state.machine import State
from litemq.storage.state.machine_parts import Delivery
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.topics import (
    CONTROL_TOPIC,
    CONTROL_TOPIC_ID,
    NO_SETTINGS,
    QueueKey,
    TopicFacts,
    TopicSettings,
    dead_letter_topic,
    retry_topic,
)

__all__ = [
    "CONTROL_TOPIC",
    "CONTROL_TOPIC_ID",
    "NO_SETTINGS",
    "Delivery",
    "PlacedRecord",
    "QueueKey",
    "State",
    "TopicFacts",
    "TopicSettings",
    "dead_letter_topic",
    "retry_topic",
]
