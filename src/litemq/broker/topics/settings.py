"""The settings of topics: validation, and conversion from and to the wire."""

from __future__ import annotations

from typing import Final

from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import Control, TopicChanged
from litemq.proto.wire_pb2 import AlterTopicRequest, CreateTopicRequest
from litemq.proto.wire_pb2 import TopicSettings as WireSettings
from litemq.storage.state import TopicFacts, TopicSettings
from litemq.types import PRIORITY_CLASSES, Archived

__all__ = ["altered", "change_of", "check_same", "queue_ids_of", "settings_from_wire", "settings_to_wire"]

_MOST_TTL_MS: Final = 3650 * 86_400_000
_MOST_BACKLOG: Final = 1 << 40
_MOST_CHECK_MS: Final = 86_400_000
_MOST_CHECKS: Final = 1_000


def settings_from_wire(message: WireSettings) -> TopicSettings:
    """Return the settings of a wire ``message``, or raise if they are invalid."""
    return _checked(TopicSettings(*(getattr(message, name) for name in TopicSettings._fields)))


def settings_to_wire(topic: TopicFacts) -> WireSettings:
    """Return the settings of ``topic`` as a wire message."""
    return WireSettings(**topic.settings._asdict())


def queue_ids_of(queues: int, settings: TopicSettings) -> int:
    """Return the number of queue ids that ``queues`` need."""
    return queues * PRIORITY_CLASSES if settings.has_priorities else queues


def check_same(topic: TopicFacts, request: CreateTopicRequest) -> None:
    """Raise unless ``topic`` has the queues and settings that ``request`` names."""
    settings = settings_from_wire(request.settings)
    wanted = queue_ids_of(request.queues, settings)
    if wanted not in (0, topic.queues) or any(mine and mine != its for mine, its in zip(settings, topic.settings, strict=True)):
        raise InvalidArgumentError(
            f"topic {topic.name!r} is there already, with {_described(topic.queues, topic.settings)} "
            f"instead of {_described(wanted or topic.queues, settings)}"
        )


def altered(topic: TopicFacts, request: AlterTopicRequest) -> TopicFacts:
    """Return ``topic`` with the settings that ``request`` names."""
    named = {name: getattr(request, name) for name in TopicSettings._fields if name != "has_priorities" and request.HasField(name)}
    if named.get("weighted_priorities") and not topic.has_priorities:
        raise InvalidArgumentError(f"topic {topic.name!r} has no priorities, and gets none any more: create another one with priorities")
    if named.get("archived") == Archived.NO:
        named.setdefault("archive_wait_ms", 0)
    return topic._replace(**_checked(topic.settings._replace(**named))._asdict())


def change_of(topic: TopicFacts) -> Control:
    """Return the record of the topic's settings."""
    return Control(topic_changed=TopicChanged(topic=topic.told()))


def _checked(settings: TopicSettings) -> TopicSettings:
    if not 0 <= settings.ttl_ms <= _MOST_TTL_MS:
        raise InvalidArgumentError(f"ttl_ms={settings.ttl_ms}: choose 0 (messages stay) … {_MOST_TTL_MS}, which is ten years")
    if not 0 <= settings.max_backlog <= _MOST_BACKLOG:
        raise InvalidArgumentError(f"max_backlog={settings.max_backlog}: choose 0 (the broker's default) … {_MOST_BACKLOG}")
    if settings.weighted_priorities and not settings.has_priorities:
        raise InvalidArgumentError("weighted priorities for a topic without priorities: ask for both")
    if settings.archived not in tuple(Archived):
        raise InvalidArgumentError(f"archived={settings.archived}: choose 0 (no), 1 (block) or 2 (drop-with-record)")
    if not 0 <= settings.archive_wait_ms <= _MOST_TTL_MS:
        raise InvalidArgumentError(f"archive_wait_ms={settings.archive_wait_ms}: choose 0 (the broker's default) … {_MOST_TTL_MS}")
    if settings.archive_wait_ms and settings.archived != Archived.DROP_WITH_RECORD:
        raise InvalidArgumentError(
            "archive_wait is for archived='drop-with-record' alone: no waits not at all, block until the archive has come"
        )
    for name in ("check_after_ms", "check_every_ms"):
        if not 0 <= getattr(settings, name) <= _MOST_CHECK_MS:
            raise InvalidArgumentError(
                f"{name}={getattr(settings, name)}: choose 0 (the broker's default) … {_MOST_CHECK_MS}, which is a day"
            )
    if not 0 <= settings.max_checks <= _MOST_CHECKS:
        raise InvalidArgumentError(f"max_checks={settings.max_checks}: choose 0 (the broker's default) … {_MOST_CHECKS}")
    return settings


def _described(queue_ids: int, settings: TopicSettings) -> str:
    named = [f"{name}={value}" for name, value in settings._asdict().items() if value]
    return " and ".join([f"{queue_ids} queues", *named])
