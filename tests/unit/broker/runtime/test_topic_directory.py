"""Topics by name: an unknown topic or queue is refused with a hint."""

import pytest

from litemq.broker.runtime.topic_directory import TopicDirectory
from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, TopicNotFoundError
from litemq.storage.memory_store import MemoryStore


def test_unknown_topics_and_queues_are_refused_with_a_hint() -> None:
    store = MemoryStore(FakeClock())
    topic = store.create_topic("orders", 4)
    topics = TopicDirectory(store)
    assert topics.find("orders") == topic == topics.find_with_queue("orders", 3)
    with pytest.raises(InvalidArgumentError, match="topic 'orders' has no queue 4: it has 4"):
        topics.find_with_queue("orders", 4)
    with pytest.raises(TopicNotFoundError, match="litemq topic create other"):
        topics.find_with_queue("other", 0)
    assert topics.user_topics == [topic]
    assert topic in topics.readable
    store.close()


def test_the_control_topic_is_for_the_broker_alone() -> None:
    store = MemoryStore(FakeClock())
    topics = TopicDirectory(store)
    with pytest.raises(InvalidArgumentError, match="reserved"):
        topics.find("LITEMQ_SYS_CONTROL")
    readable = {topic.name for topic in topics.readable}
    assert "LITEMQ_SYS_CONTROL" not in readable
    assert "LITEMQ_SYS_TRACE" in readable
    assert topics.find("LITEMQ_SYS_TRACE").queues == 1
    store.close()
