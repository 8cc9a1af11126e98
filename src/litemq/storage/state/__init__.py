"""What a broker knows besides its messages: a state machine over control records, and its rows in ``state.db``."""

from litemq.storage.state.delivery import Delivery, PlacedRecord
from litemq.storage.state.facts import (
    CONTROL_TOPIC,
    CONTROL_TOPIC_ID,
    NO_SETTINGS,
    QueueKey,
    TopicFacts,
    TopicSettings,
    dead_letter_topic,
    retry_topic,
)
from litemq.storage.state.machine import State

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
