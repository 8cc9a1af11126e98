"""Declares a topic that a feature of the client needs, with the settings of the feature."""

from __future__ import annotations

from collections.abc import Callable

from litemq.client.engine.engine import Engine
from litemq.client.engine.topics import TopicChanges, TopicSettings
from litemq.errors import PartialAnswerError

__all__ = ["declare_topic"]


async def declare_topic(engine: Engine, topic: str, missing: Callable[[TopicSettings], TopicChanges | None]) -> None:
    """Create ``topic`` if the brokers allow it, and make the changes that ``missing`` returns.

    ``missing`` gets the settings of the brokers that answer; ``None``: there is nothing to change.

    Raises:
        TopicNotFoundError: The topic does not exist, and the brokers do not create topics.
        LiteMQError: The topic cannot be described or changed.
    """
    await engine.route(topic, create=True)
    try:
        info = await engine.describe_topic(topic)
    except PartialAnswerError as error:
        info = error.answer
    changes = missing(info.settings)
    if changes is not None:
        await engine.alter_topic(topic, changes)
