"""What a broker knows besides its messages: a state machine over control records, and its rows in ``state.db``."""

from litemq.storage.state.machine import CONTROL_TOPIC, CONTROL_TOPIC_ID, QueueKey, State, TopicFacts

__all__ = ["CONTROL_TOPIC", "CONTROL_TOPIC_ID", "QueueKey", "State", "TopicFacts"]
