"""What can be chosen for a topic, as users name it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal, NamedTuple, get_args

from litemq.client.times import seconds
from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import AlterTopicRequest
from litemq.proto.wire_pb2 import TopicSettings as ToldSettings
from litemq.types import ArchivedChoice, Priorities, WhenFull

__all__ = ["CheckSettings", "TopicChanges", "TopicSettings", "changes_from", "settings_from"]

_MOST_BACKLOG: Final = 1 << 40
# As brokers number them.
_ARCHIVED: Final[tuple[ArchivedChoice, ...]] = get_args(ArchivedChoice)


class TopicSettings(NamedTuple):
    """A topic's settings. Zeros: as its brokers have it for all topics."""

    priorities: Priorities = "none"  # under leases: the highest first, or each class its share
    ttl_ms: int = 0  # of messages that name none; 0: they stay
    max_backlog: int = 0  # messages of a queue behind the slowest group
    when_full: WhenFull = "reject"  # what becomes of a message that is over it
    archived: ArchivedChoice = "no"  # whether retention waits for the topic's archive
    archive_wait_ms: int = 0  # with "drop-with-record": how old what is not archived gets, at least
    check_after_ms: int = 0  # when producers are asked for a transaction's outcome, first
    check_every_ms: int = 0  # and then again
    max_checks: int = 0  # so often at most

    @classmethod
    def of(cls, told: ToldSettings) -> TopicSettings:
        """As a broker tells them."""
        priorities: Priorities = "none"
        if told.has_priorities:
            priorities = "weighted" if told.weighted_priorities else "strict"
        return cls(
            priorities,
            told.ttl_ms,
            told.max_backlog,
            "dead_letter" if told.backlog_dead_letters else "reject",
            _ARCHIVED[told.archived],
            told.archive_wait_ms,
            told.check_after_ms,
            told.check_every_ms,
            told.max_checks,
        )

    def told(self) -> ToldSettings:
        """As a broker is told them."""
        return ToldSettings(
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
        )


class CheckSettings(NamedTuple):
    """When producers are asked for the outcomes of a topic's transactions, as a caller says it; ``None``: not at all."""

    check_after: float | timedelta | None = None
    check_every: float | timedelta | None = None
    max_checks: int | None = None

    def told(self) -> tuple[int | None, int | None, int | None]:
        """In milliseconds, and how often."""
        if self.max_checks is not None and (not isinstance(self.max_checks, int) or self.max_checks < 0):
            raise InvalidArgumentError(f"max_checks={self.max_checks!r}: choose 0 (the broker's default) … 1000")
        after, every = (
            None if value is None else _milliseconds(value, what)
            for value, what in ((self.check_after, "check_after"), (self.check_every, "check_every"))
        )
        return after, every, self.max_checks


class TopicChanges(NamedTuple):
    """Settings of a topic that are to be different; what is ``None`` stays as it is."""

    priorities: Literal["strict", "weighted"] | None = None
    ttl_ms: int | None = None
    max_backlog: int | None = None
    when_full: WhenFull | None = None
    archived: ArchivedChoice | None = None
    archive_wait_ms: int | None = None
    check_after_ms: int | None = None
    check_every_ms: int | None = None
    max_checks: int | None = None

    def told(self, topic: str) -> AlterTopicRequest:
        """As a broker is told them."""
        return AlterTopicRequest(
            topic=topic,
            weighted_priorities=None if self.priorities is None else self.priorities == "weighted",
            ttl_ms=self.ttl_ms,
            max_backlog=self.max_backlog,
            backlog_dead_letters=None if self.when_full is None else self.when_full == "dead_letter",
            archived=None if self.archived is None else _ARCHIVED.index(self.archived),
            archive_wait_ms=self.archive_wait_ms,
            check_after_ms=self.check_after_ms,
            check_every_ms=self.check_every_ms,
            max_checks=self.max_checks,
        )


def settings_from(
    priorities: bool | Priorities,
    ttl: float | timedelta | None,
    max_backlog: int,
    when_full: WhenFull,
    archived: ArchivedChoice,
    archive_wait: float | timedelta | None,
    checks: CheckSettings,
) -> TopicSettings:
    """What a caller asks for, or an error that says what may be asked for."""
    named: Priorities = ("strict" if priorities else "none") if isinstance(priorities, bool) else priorities
    _check("priorities", named, get_args(Priorities))
    _check("when_full", when_full, get_args(WhenFull))
    _check("archived", archived, _ARCHIVED)
    waits = _milliseconds(archive_wait, "archive_wait")
    asked = (each or 0 for each in checks.told())
    return TopicSettings(named, _milliseconds(ttl), _backlog(max_backlog), when_full, archived, waits, *asked)


def changes_from(
    priorities: Literal["strict", "weighted"] | None,
    ttl: float | timedelta | None,
    max_backlog: int | None,
    when_full: WhenFull | None,
    archived: ArchivedChoice | None,
    archive_wait: float | timedelta | None,
    checks: CheckSettings,
) -> TopicChanges:
    """What a caller wants to be different, or an error that says what may be."""
    if priorities is not None:
        _check("priorities", priorities, ("strict", "weighted"))
    if when_full is not None:
        _check("when_full", when_full, get_args(WhenFull))
    if archived is not None:
        _check("archived", archived, _ARCHIVED)
    changes = TopicChanges(
        priorities,
        None if ttl is None else _milliseconds(ttl),
        None if max_backlog is None else _backlog(max_backlog),
        when_full,
        archived,
        None if archive_wait is None else _milliseconds(archive_wait, "archive_wait"),
        *checks.told(),
    )
    if changes == TopicChanges():
        raise InvalidArgumentError(
            "nothing to change: name at least one of priorities, ttl, max_backlog, when_full, archived, archive_wait, check_after, check_every "
            "and max_checks"
        )
    return changes


def _milliseconds(value: float | timedelta | None, what: str = "ttl") -> int:
    return 0 if value is None else round(seconds(value, what) * 1000)


def _backlog(value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_BACKLOG:
        raise InvalidArgumentError(f"max_backlog={value!r}: choose 0 (the broker's default) … {_MOST_BACKLOG}")
    return value


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgumentError(f"{name}={value!r}: choose one of {', '.join(choices)}")
