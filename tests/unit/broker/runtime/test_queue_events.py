"""Events reach their listeners in the order in which these were added."""

from litemq.broker.runtime.queue_events import QueueEvents, QueueListener
from litemq.storage.state import QueueKey

KEY = QueueKey(7, 0)


class Listener(QueueListener):
    def __init__(self, name: str, heard: list[tuple[object, ...]]) -> None:
        self._name = name
        self._heard = heard

    def on_append(self, keys: list[QueueKey], end: int) -> None:
        self._heard.append((self._name, "append", keys, end))

    def on_group_changed(self, group: str) -> None:
        self._heard.append((self._name, "group", group))


class Other(QueueListener):
    def __init__(self, heard: list[tuple[object, ...]]) -> None:
        self._heard = heard

    def on_timer_added(self) -> None:
        self._heard.append(("timer",))

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:
        self._heard.append(("retry", group, key, end))

    def on_owner_lost(self, key: QueueKey, generation: int) -> None:
        self._heard.append(("owner", key, generation))

    def on_topics_changed(self) -> None:
        self._heard.append(("topics",))


def test_each_event_goes_to_its_listeners() -> None:
    heard: list[tuple[object, ...]] = []
    events = QueueEvents()
    events.on_append([KEY], 1)  # no listeners yet
    for listener in (Listener("a", heard), Other(heard), Listener("b", heard)):
        events.add(listener)
    events.on_append([KEY], 5)
    events.on_group_changed("g")
    assert heard == [("a", "append", [KEY], 5), ("b", "append", [KEY], 5), ("a", "group", "g"), ("b", "group", "g")]
    heard.clear()
    events.on_timer_added()
    events.on_retry_placed("g", KEY, 9)
    events.on_owner_lost(KEY, 3)
    events.on_topics_changed()
    assert heard == [("timer",), ("retry", "g", KEY, 9), ("owner", KEY, 3), ("topics",)]
