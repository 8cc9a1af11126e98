"""The settings of topics: validation, and conversion from and to the wire."""

from __future__ import annotations

from typing import Final

from litemq.broker.topics.schema_versions import with_schema
from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import Control, TopicChanged
from litemq.proto.wire_pb2 import AlterTopicRequest, CreateTopicRequest
from litemq.proto.wire_pb2 import TopicSettings as WireSettings
from litemq.storage.state import Topic, TopicSettings
from litemq.types import MAX_REPLICAS, PRIORITY_CLASSES, Archived, Compatibility, ReplicaAck, Visibility

__all__ = ["altered", "check_same", "count_queue_ids", "settings_from_wire", "settings_record", "settings_to_wire"]

_MAX_TTL_MS: Final = 3650 * 86_400_000
_MAX_BACKLOG: Final = 1 << 40
_MAX_CHECK_MS: Final = 86_400_000
_MAX_CHECKS: Final = 1_000


def settings_from_wire(message: WireSettings) -> TopicSettings:
    """Return the settings of a wire ``message``, or raise if they are invalid."""
    fields = {name: getattr(message, name) for name in TopicSettings._fields}
    return _checked(TopicSettings(**{**fields, "schemas": ()}))  # a new topic has none


def settings_to_wire(topic: Topic) -> WireSettings:
    """Return the settings of ``topic`` as a wire message."""
    return WireSettings(**topic.settings._asdict())


def count_queue_ids(queues: int, settings: TopicSettings) -> int:
    """Return the number of queue ids that ``queues`` need."""
    return queues * PRIORITY_CLASSES if settings.has_priorities else queues


def check_same(topic: Topic, request: CreateTopicRequest) -> None:
    """Raise unless ``topic`` has the queues and settings that ``request`` names."""
    settings = settings_from_wire(request.settings)
    wanted = count_queue_ids(request.queues, settings)
    if wanted not in (0, topic.queues) or any(
        mine and mine != its for mine, its in zip(settings, topic.settings, strict=True)
    ):
        raise InvalidArgumentError(
            f"topic {topic.name!r} already exists with {_described(topic.queues, topic.settings)}, not with "
            f"{_described(wanted or topic.queues, settings)}: use the same settings, or choose another name"
        )


def altered(topic: Topic, request: AlterTopicRequest) -> Topic:
    """Return ``topic`` with the settings that ``request`` names."""
    named = {
        name: getattr(request, name)
        for name in TopicSettings._fields
        if name not in ("has_priorities", "schemas") and request.HasField(name)
    }
    if named.get("weighted_priorities") and not topic.has_priorities:
        raise InvalidArgumentError(
            f"topic {topic.name!r} has no priorities, and cannot get any: create another topic with priorities"
        )
    if named.get("archived") == Archived.NO:
        named.setdefault("archive_wait_ms", 0)
    if request.HasField("schema"):
        named["schemas"] = with_schema(topic, request.schema, named.get("compatibility", topic.compatibility))
    return topic._replace(**_checked(topic.settings._replace(**named))._asdict())


def settings_record(topic: Topic) -> Control:
    """Return the record of the topic's settings."""
    return Control(topic_changed=TopicChanged(topic=topic.to_wire()))


def _checked(settings: TopicSettings) -> TopicSettings:
    if not 0 <= settings.ttl_ms <= _MAX_TTL_MS:
        raise InvalidArgumentError(f"ttl_ms={settings.ttl_ms}: choose 0 (no limit) … {_MAX_TTL_MS} (ten years)")
    if not 0 <= settings.retention_ms <= _MAX_TTL_MS:
        raise InvalidArgumentError(
            f"retention_ms={settings.retention_ms}: choose 0 (no limit) … {_MAX_TTL_MS} (ten years)"
        )
    if not 0 <= settings.max_backlog <= _MAX_BACKLOG:
        raise InvalidArgumentError(
            f"max_backlog={settings.max_backlog}: choose 0 (the broker's default) … {_MAX_BACKLOG}"
        )
    if settings.weighted_priorities and not settings.has_priorities:
        raise InvalidArgumentError("weighted priorities need a topic with priorities: set both")
    if settings.archived not in tuple(Archived):
        raise InvalidArgumentError(f"archived={settings.archived}: choose 0 (no), 1 (block) or 2 (drop-with-record)")
    if not 0 <= settings.archive_wait_ms <= _MAX_TTL_MS:
        raise InvalidArgumentError(
            f"archive_wait_ms={settings.archive_wait_ms}: choose 0 (the broker's default) … {_MAX_TTL_MS}"
        )
    if settings.archive_wait_ms and settings.archived != Archived.DROP_WITH_RECORD:
        raise InvalidArgumentError(
            "archive_wait needs archived='drop-with-record': 'no' never waits, and 'block' waits without a limit"
        )
    for name in ("check_after_ms", "check_every_ms"):
        if not 0 <= getattr(settings, name) <= _MAX_CHECK_MS:
            raise InvalidArgumentError(
                f"{name}={getattr(settings, name)}: choose 0 (the broker's default) … {_MAX_CHECK_MS} (one day)"
            )
    if settings.compatibility not in tuple(Compatibility):
        raise InvalidArgumentError(f"compatibility={settings.compatibility}: choose 0 (backward) or 1 (none)")
    if settings.visibility not in tuple(Visibility):
        raise InvalidArgumentError(f"visibility={settings.visibility}: choose 0 (confirmed) or 1 (received)")
    if settings.replica_ack not in tuple(ReplicaAck):
        raise InvalidArgumentError(f"replica_ack={settings.replica_ack}: choose 0 (disk) or 1 (memory)")
    if settings.min_in_sync > MAX_REPLICAS:
        raise InvalidArgumentError(
            f"min_in_sync={settings.min_in_sync}: choose 0 (the setting of the group) … {MAX_REPLICAS}"
        )
    if not 0 <= settings.max_checks <= _MAX_CHECKS:
        raise InvalidArgumentError(f"max_checks={settings.max_checks}: choose 0 (the broker's default) … {_MAX_CHECKS}")
    return settings


def _described(queue_ids: int, settings: TopicSettings) -> str:
    named = [f"{name}={value}" for name, value in settings._asdict().items() if value and name != "schemas"]
    return " and ".join([f"{queue_ids} queues", *named])
