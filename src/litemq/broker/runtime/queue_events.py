"""Events of queues, timers and groups, from one capability of the broker to the others."""

from __future__ import annotations

from litemq.storage.state import QueueKey

__all__ = ["QueueEvents", "QueueListener"]


class QueueListener:
    """Override the events to listen to.

    All are called on the broker's event loop and must not block.
    """

    def on_append(self, keys: list[QueueKey], end: int) -> None:
        """``keys`` have new messages, readable once the log is confirmed up to ``end``."""

    def on_timer_added(self) -> None:
        """The store has new timers; one of them may be due next."""

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:
        """A retry of ``group`` was appended to its retry queue ``key``, readable once the log is
        confirmed up to ``end``.
        """

    def on_group_changed(self, group: str) -> None:
        """The offsets of ``group`` were set, or it was resumed."""

    def on_topics_changed(self) -> None:
        """A topic was created, altered or deleted."""

    def on_owner_lost(self, key: QueueKey, generation: int) -> None:
        """The owner of ``key`` with this ``generation`` owns it no longer."""


class QueueEvents(QueueListener):
    """Passes each event on to its listeners, in the order in which they were added."""

    def __init__(self) -> None:
        self._listeners: list[QueueListener] = []
        # Appends are by far the most frequent event: only their listeners are called.
        self._append_listeners: list[QueueListener] = []

    def add(self, listener: QueueListener) -> None:
        """Pass the events that ``listener`` overrides on to it."""
        self._listeners.append(listener)
        if type(listener).on_append is not QueueListener.on_append:
            self._append_listeners.append(listener)

    def on_append(self, keys: list[QueueKey], end: int) -> None:
        for listener in self._append_listeners:
            listener.on_append(keys, end)

    def on_timer_added(self) -> None:
        for listener in self._listeners:
            listener.on_timer_added()

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:
        for listener in self._listeners:
            listener.on_retry_placed(group, key, end)

    def on_group_changed(self, group: str) -> None:
        for listener in self._listeners:
            listener.on_group_changed(group)

    def on_topics_changed(self) -> None:
        for listener in self._listeners:
            listener.on_topics_changed()

    def on_owner_lost(self, key: QueueKey, generation: int) -> None:
        for listener in self._listeners:
            listener.on_owner_lost(key, generation)
