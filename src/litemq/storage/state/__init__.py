"""What a broker knows besides its messages: a state machine over control records, and its rows in ``state.db``."""

from litemq.storage.state.delivery import Delivery, PlacedRecord
from litemq.storage.state.facts import CONTROL_TOPIC, CONTROL_TOPIC_ID, QueueKey, TopicFacts, dead_letter_topic, retry_topic
from litemq.storage.state.machine import State

__all__ = [
    "CONTROL_TOPIC",
    "CONTROL_TOPIC_ID",
    "Delivery",
    "PlacedRecord",
    "QueueKey",
    "State",
    "TopicFacts",
    "dead_letter_topic",
    "retry_topic",
]
