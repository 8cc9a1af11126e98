"""What a job is made of, as callers say it and as a broker keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from litemq.client.messages.serializers import CONTENT_TYPE, Serializers
from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError
from litemq.proto.jobs_pb2 import JobDefinition, JobProperty
from litemq.types import CatchUp, Overlap

__all__ = ["CatchUpRule", "JobOptions", "OverlapRule", "set_body", "set_options", "word_of"]

OverlapRule = Literal["allow", "skip", "queue-one"]  # what becomes of a tick while the run before it is not over
CatchUpRule = Literal["skip", "one", "all"]  # what becomes of ticks while no broker was there


class JobOptions(TypedDict, total=False):
    """What ``mq.jobs.create`` and ``update`` take besides a topic and a body. Durations are seconds, or a timedelta."""

    cron: str  # "0 */5 * * * *", the second first; or five fields, or @hourly, @every 90s
    every: float | timedelta | None
    timezone: str  # of the cron expression, "Asia/Shanghai"; UTC where none is named
    group_id: str  # whose acknowledgement ends a run
    overlap: OverlapRule
    catch_up: CatchUpRule
    catch_up_window: float | timedelta  # what was missed for longer is not caught up
    jitter: float | timedelta  # the job comes so much later at most, always the same
    max_retries: int | None  # of a run; None: as its handler has it
    timeout: float | timedelta | None
    start_at: datetime | None
    end_at: datetime | None
    tags: str | Sequence[str]
    keys: str | Sequence[str]
    properties: Mapping[str, str]
    ordering_key: str
    priority: int | None
    paused: bool


_OVERLAPS: Final = {"allow": Overlap.ALLOW, "skip": Overlap.SKIP, "queue-one": Overlap.QUEUE_ONE}
_CATCH_UPS: Final = {"one": CatchUp.ONE, "all": CatchUp.ALL, "skip": CatchUp.SKIP}


def _ms(value: float | timedelta | None, what: str) -> int:
    return 0 if value is None else round(seconds(value, what) * 1000)


def _words(words: str | Sequence[str]) -> list[str]:
    return [words] if isinstance(words, str) else list(words)


def _set_cron(job: JobDefinition, value: Any) -> None:
    job.expression = value
    if value:
        job.every_ms = 0


def _set_every(job: JobDefinition, value: Any) -> None:
    job.every_ms = _ms(value, "every")
    if job.every_ms:
        job.expression = job.timezone = ""


def _set_rule(field: str, rules: Mapping[str, int]) -> Callable[[JobDefinition, Any], None]:
    def put(job: JobDefinition, value: Any) -> None:
        if value not in rules:
            raise InvalidArgumentError(f"{field}={value!r}: choose one of {', '.join(rules)}")
        setattr(job, field, rules[value])

    return put


def _set_duration(field: str, name: str) -> Callable[[JobDefinition, Any], None]:
    return lambda job, value: setattr(job, field, _ms(value, name))


def _set_moment(field: str) -> Callable[[JobDefinition, Any], None]:
    return lambda job, value: setattr(job, field, 0 if value is None else to_ms(value, field))


def _set_number(field: str) -> Callable[[JobDefinition, Any], None]:
    def put(job: JobDefinition, value: Any) -> None:
        job.ClearField(field)
        if value is not None:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
                raise InvalidArgumentError(f"{field}={value!r}: choose a whole number from 0 on")
            setattr(job, field, value)

    return put


def _set_words(field: str) -> Callable[[JobDefinition, Any], None]:
    def put(job: JobDefinition, value: Any) -> None:
        del getattr(job, field)[:]
        getattr(job, field).extend(_words(value))

    return put


def _set_properties(job: JobDefinition, value: Any) -> None:
    content_type = [each for each in job.properties if each.name == CONTENT_TYPE and CONTENT_TYPE not in value]
    named = [JobProperty(name=name, value=text) for name, text in dict(value).items()]
    del job.properties[:]
    job.properties.extend([*named, *content_type])


_SETTERS: Final[dict[str, Callable[[JobDefinition, Any], None]]] = {
    "cron": _set_cron,
    "every": _set_every,
    "timezone": lambda job, value: setattr(job, "timezone", value),
    "group_id": lambda job, value: setattr(job, "group", value),
    "overlap": _set_rule("overlap", _OVERLAPS),
    "catch_up": _set_rule("catch_up", _CATCH_UPS),
    "catch_up_window": _set_duration("catch_up_window_ms", "catch_up_window"),
    "jitter": _set_duration("jitter_ms", "jitter"),
    "max_retries": _set_number("max_retries"),
    "timeout": _set_duration("timeout_ms", "timeout"),
    "start_at": _set_moment("start_at"),
    "end_at": _set_moment("end_at"),
    "tags": _set_words("tags"),
    "keys": _set_words("keys"),
    "properties": _set_properties,
    "ordering_key": lambda job, value: setattr(job, "ordering_key", value),
    "priority": _set_number("priority"),
    "paused": lambda job, value: setattr(job, "paused", bool(value)),
}


def set_options(job: JobDefinition, options: Mapping[str, Any]) -> None:
    """Put what was said into a definition; all else stays as it is."""
    if unknown := sorted(set(options) - set(_SETTERS)):
        raise InvalidArgumentError(f"{', '.join(unknown)}: no such option; there are {', '.join(sorted(_SETTERS))}")
    if options.get("cron") and options.get("every"):
        raise InvalidArgumentError("cron and every: choose one")
    for name, value in options.items():
        try:
            _SETTERS[name](job, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"{name}={value!r}: {error}") from None


def set_body(job: JobDefinition, body: Any, serializers: Serializers) -> None:
    """Put a value into a definition, as it would be sent."""
    job.body, content_type = serializers.dumps(job.topic, body)
    kept = [each for each in job.properties if each.name != CONTENT_TYPE]
    del job.properties[:]
    job.properties.extend([*kept, JobProperty(name=CONTENT_TYPE, value=content_type)] if content_type else kept)


def word_of(rule: Overlap | CatchUp) -> str:
    """What a rule is called by users."""
    return rule.name.lower().replace("_", "-")
