"""Topic settings as users name them, and their conversion to and from the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple, get_args

from litemq.client.times import seconds
from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import AlterTopicRequest
from litemq.proto.wire_pb2 import TopicSettings as WireSettings
from litemq.types import (
    MAX_REPLICAS,
    ArchivedChoice,
    CompatibilityChoice,
    Priorities,
    ReplicaAckChoice,
    VisibilityChoice,
    WhenFull,
)

__all__ = ["CheckSettings", "TopicChanges", "TopicSettings", "schema_text", "topic_changes", "topic_settings"]

_MAX_BACKLOG: Final = 1 << 40
# In the order of the wire protocol's numbers.
_ARCHIVED: Final[tuple[ArchivedChoice, ...]] = get_args(ArchivedChoice)
_COMPATIBILITY: Final[tuple[CompatibilityChoice, ...]] = get_args(CompatibilityChoice)
_REPLICA_ACK: Final[tuple[ReplicaAckChoice, ...]] = get_args(ReplicaAckChoice)
_VISIBILITY: Final[tuple[VisibilityChoice, ...]] = get_args(VisibilityChoice)


class TopicSettings(NamedTuple):
    """A topic's settings. 0 means the broker's default."""

    priorities: Priorities = (
        "none"  # for leases: "strict" delivers the highest first, "weighted" gives each class a share
    )
    ttl_ms: int = 0  # of messages without a TTL of their own; 0: they do not expire
    max_backlog: int = 0  # per queue, unconsumed messages of the slowest group
    when_full: WhenFull = "reject"  # for messages above ``max_backlog``
    archived: ArchivedChoice = "no"  # whether retention waits for the topic's archive
    archive_wait_ms: int = 0  # with "drop-with-record": the least age at which unarchived messages are dropped
    check_after_ms: int = 0  # from storing a half to the first check-back
    check_every_ms: int = 0  # between check-backs
    max_checks: int = 0  # check-backs for each transaction
    retention_ms: int = 0  # the maximum age of messages; 0: only the limits of the broker's log
    schemas: tuple[str, ...] = ()  # JSON schemas of the bodies, the latest last
    compatibility: CompatibilityChoice = "backward"  # of a new schema with the earlier ones
    visibility: VisibilityChoice = "confirmed"  # of messages to consumers
    replica_ack: ReplicaAckChoice = "disk"  # where replicas have a message of durability ``replicas`` at its ack
    min_in_sync: int = 0  # replicas that durability ``replicas`` needs, if more than the setting of the group

    @classmethod
    def from_wire(cls, settings: WireSettings) -> TopicSettings:
        priorities: Priorities = "none"
        if settings.has_priorities:
            priorities = "weighted" if settings.weighted_priorities else "strict"
        return cls(
            priorities,
            settings.ttl_ms,
            settings.max_backlog,
            "dead_letter" if settings.backlog_dead_letters else "reject",
            _ARCHIVED[settings.archived],
            settings.archive_wait_ms,
            settings.check_after_ms,
            settings.check_every_ms,
            settings.max_checks,
            settings.retention_ms,
            tuple(settings.schemas),
            _COMPATIBILITY[settings.compatibility],
            _VISIBILITY[settings.visibility],
            _REPLICA_ACK[settings.replica_ack],
            settings.min_in_sync,
        )

    def to_wire(self) -> WireSettings:
        return WireSettings(
            has_priorities=self.priorities != "none",
            weighted_priorities=self.priorities == "weighted",
            ttl_ms=self.ttl_ms,
            max_backlog=self.max_backlog,
            backlog_dead_letters=self.when_full == "dead_letter",
            archived=_ARCHIVED.index(self.archived),
            archive_wait_ms=self.archive_wait_ms,
            check_after_ms=self.check_after_ms,
            check_every_ms=self.check_every_ms,
            max_checks=self.max_checks,
            retention_ms=self.retention_ms,
            compatibility=_COMPATIBILITY.index(self.compatibility),
            visibility=_VISIBILITY.index(self.visibility),
            replica_ack=_REPLICA_ACK.index(self.replica_ack),
            min_in_sync=self.min_in_sync,
        )


class CheckSettings(NamedTuple):
    """The check-back settings of a topic, as a caller gives them; ``None``: not given."""

    check_after: float | timedelta | None = None
    check_every: float | timedelta | None = None
    max_checks: int | None = None

    def to_wire(self) -> tuple[int | None, int | None, int | None]:
        """Return ``check_after`` and ``check_every`` in milliseconds, and ``max_checks``."""
        if self.max_checks is not None and (not isinstance(self.max_checks, int) or self.max_checks < 0):
            raise InvalidArgumentError(f"max_checks={self.max_checks!r}: choose 0 (the broker's default) … 1000")
        after, every = (
            None if value is None else _milliseconds(value, what)
            for value, what in ((self.check_after, "check_after"), (self.check_every, "check_every"))
        )
        return after, every, self.max_checks


class TopicChanges(NamedTuple):
    """Changes to a topic's settings; ``None`` leaves a setting unchanged."""

    priorities: Literal["strict", "weighted"] | None = None
    ttl_ms: int | None = None
    max_backlog: int | None = None
    when_full: WhenFull | None = None
    archived: ArchivedChoice | None = None
    archive_wait_ms: int | None = None
    check_after_ms: int | None = None
    check_every_ms: int | None = None
    max_checks: int | None = None
    retention_ms: int | None = None
    schema: str | None = None
    compatibility: CompatibilityChoice | None = None
    visibility: VisibilityChoice | None = None
    replica_ack: ReplicaAckChoice | None = None
    min_in_sync: int | None = None

    def to_wire(self, topic: str) -> AlterTopicRequest:
        request = AlterTopicRequest(
            topic=topic,
            ttl_ms=self.ttl_ms,
            max_backlog=self.max_backlog,
            archived=None if self.archived is None else _ARCHIVED.index(self.archived),
            archive_wait_ms=self.archive_wait_ms,
            check_after_ms=self.check_after_ms,
            check_every_ms=self.check_every_ms,
            max_checks=self.max_checks,
            retention_ms=self.retention_ms,
            schema=self.schema,
            compatibility=None if self.compatibility is None else _COMPATIBILITY.index(self.compatibility),
            visibility=None if self.visibility is None else _VISIBILITY.index(self.visibility),
            replica_ack=None if self.replica_ack is None else _REPLICA_ACK.index(self.replica_ack),
            min_in_sync=self.min_in_sync,
        )
        if self.priorities is not None:
            request.weighted_priorities = self.priorities == "weighted"
        if self.when_full is not None:
            request.backlog_dead_letters = self.when_full == "dead_letter"
        return request


def topic_settings(
    priorities: bool | Priorities,
    ttl: float | timedelta | None,
    max_backlog: int,
    when_full: WhenFull,
    archived: ArchivedChoice,
    archive_wait: float | timedelta | None,
    checks: CheckSettings,
    retention: float | timedelta | None,
    visibility: VisibilityChoice,
    replica_ack: ReplicaAckChoice = "disk",
    min_in_sync: int = 0,
) -> TopicSettings:
    """Build the settings of a new topic.

    Raise ``InvalidArgumentError`` for a value that is not allowed.
    """
    named: Priorities = ("strict" if priorities else "none") if isinstance(priorities, bool) else priorities
    _check("priorities", named, get_args(Priorities))
    _check("when_full", when_full, get_args(WhenFull))
    _check("archived", archived, _ARCHIVED)
    _check("visibility", visibility, _VISIBILITY)
    _check("replica_ack", replica_ack, _REPLICA_ACK)
    archive_wait_ms = _milliseconds(archive_wait, "archive_wait")
    check_after, check_every, max_checks = (each or 0 for each in checks.to_wire())
    return TopicSettings(
        named,
        _milliseconds(ttl),
        _backlog(max_backlog),
        when_full,
        archived,
        archive_wait_ms,
        check_after,
        check_every,
        max_checks,
        _milliseconds(retention, "retention"),
        visibility=visibility,
        replica_ack=replica_ack,
        min_in_sync=_min_in_sync(min_in_sync),
    )


def topic_changes(
    priorities: Literal["strict", "weighted"] | None,
    ttl: float | timedelta | None,
    max_backlog: int | None,
    when_full: WhenFull | None,
    archived: ArchivedChoice | None,
    archive_wait: float | timedelta | None,
    checks: CheckSettings,
    retention: float | timedelta | None,
    schema: Mapping[str, Any] | None = None,
    compatibility: CompatibilityChoice | None = None,
    visibility: VisibilityChoice | None = None,
    replica_ack: ReplicaAckChoice | None = None,
    min_in_sync: int | None = None,
) -> TopicChanges:
    """Build changes to a topic.

    Raise ``InvalidArgumentError`` for a value that is not allowed, or for none at all.
    """
    if priorities is not None:
        _check("priorities", priorities, ("strict", "weighted"))
    if when_full is not None:
        _check("when_full", when_full, get_args(WhenFull))
    if archived is not None:
        _check("archived", archived, _ARCHIVED)
    if compatibility is not None:
        _check("compatibility", compatibility, _COMPATIBILITY)
    if visibility is not None:
        _check("visibility", visibility, _VISIBILITY)
    if replica_ack is not None:
        _check("replica_ack", replica_ack, _REPLICA_ACK)
    changes = TopicChanges(
        priorities,
        None if ttl is None else _milliseconds(ttl),
        None if max_backlog is None else _backlog(max_backlog),
        when_full,
        archived,
        None if archive_wait is None else _milliseconds(archive_wait, "archive_wait"),
        *checks.to_wire(),
        retention_ms=None if retention is None else _milliseconds(retention, "retention"),
        schema=None if schema is None else schema_text(schema),
        compatibility=compatibility,
        visibility=visibility,
        replica_ack=replica_ack,
        min_in_sync=None if min_in_sync is None else _min_in_sync(min_in_sync),
    )
    if changes == TopicChanges():
        raise InvalidArgumentError(
            "nothing to change: give at least one of priorities=, ttl=, retention=, max_backlog=, when_full=, "
            "archived=, archive_wait=, check_after=, check_every=, max_checks=, schema=, compatibility=, "
            "visibility=, replica_ack= and min_in_sync="
        )
    return changes


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return the JSON ``schema`` as a topic stores it: equal schemas have equal texts."""
    if not isinstance(schema, Mapping):
        raise InvalidArgumentError(f"schema={schema!r}: pass a JSON schema as a dict")
    try:
        return json.dumps(schema, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the schema is not JSON: {error}") from None


def _milliseconds(value: float | timedelta | None, what: str = "ttl") -> int:
    return 0 if value is None else round(seconds(value, what) * 1000)


def _backlog(value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_BACKLOG:
        raise InvalidArgumentError(f"max_backlog={value!r}: choose 0 (the broker's default) … {_MAX_BACKLOG}")
    return value


def _min_in_sync(value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_REPLICAS:
        raise InvalidArgumentError(f"min_in_sync={value!r}: choose 0 (the setting of the group) … {MAX_REPLICAS}")
    return value


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgumentError(f"{name}={value!r}: choose one of {', '.join(choices)}")
