"""The options of a job: keyword arguments of ``mq.jobs`` to fields of ``JobDefinition``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from litemq.client.labels import strings
from litemq.client.messages.serializers import CONTENT_TYPE, Serializers
from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError
from litemq.proto.jobs_pb2 import JobDefinition, JobProperty
from litemq.types import CatchUp, Overlap

__all__ = ["CatchUpRule", "JobOptions", "OverlapRule", "rule_name", "set_body", "set_options"]

OverlapRule = Literal["allow", "skip", "queue-one"]  # for a tick during the previous run
CatchUpRule = Literal["skip", "one", "all"]  # for ticks missed while the broker was down


class JobOptions(TypedDict, total=False):
    """The options of ``mq.jobs.create`` and ``update``.

    Durations are seconds, or a ``timedelta``.
    """

    cron: str  # "0 */5 * * * *" with seconds first, five fields, @hourly, or @every 90s
    every: float | timedelta | None
    timezone: str  # of the cron expression, as in "Asia/Shanghai"; the default is UTC
    group_id: str  # the group whose acknowledgement ends a run
    overlap: OverlapRule
    catch_up: CatchUpRule
    catch_up_window: float | timedelta  # ticks missed for longer are not caught up
    jitter: float | timedelta  # the largest delay of a tick; each job has a fixed one
    max_retries: int | None  # of a run; None: the handler's setting
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
                raise InvalidArgumentError(f"{field}={value!r}: choose a whole number, 0 or more")
            setattr(job, field, value)

    return put


def _set_strings(field: str) -> Callable[[JobDefinition, Any], None]:
    def put(job: JobDefinition, value: Any) -> None:
        del getattr(job, field)[:]
        getattr(job, field).extend(strings(value, field))

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
    "tags": _set_strings("tags"),
    "keys": _set_strings("keys"),
    "properties": _set_properties,
    "ordering_key": lambda job, value: setattr(job, "ordering_key", value),
    "priority": _set_number("priority"),
    "paused": lambda job, value: setattr(job, "paused", bool(value)),
}


def set_options(job: JobDefinition, options: Mapping[str, Any]) -> None:
    """Set the fields of ``job`` that ``options`` name; leave all others unchanged."""
    if unknown := sorted(set(options) - set(_SETTERS)):
        raise InvalidArgumentError(f"{', '.join(unknown)}: no such option: choose from {', '.join(sorted(_SETTERS))}")
    if options.get("cron") and options.get("every"):
        raise InvalidArgumentError("cron and every are both set: choose one")
    for name, value in options.items():
        try:
            _SETTERS[name](job, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"{name}={value!r}: {error}") from None


def set_body(job: JobDefinition, body: Any, serializers: Serializers) -> None:
    """Serialize ``body`` into ``job``, as a send to its topic would."""
    job.body, content_type = serializers.dumps(job.topic, body)
    kept = [each for each in job.properties if each.name != CONTENT_TYPE]
    del job.properties[:]
    job.properties.extend([*kept, JobProperty(name=CONTENT_TYPE, value=content_type)] if content_type else kept)


def rule_name(rule: Overlap | CatchUp) -> str:
    """Return the name that users write for ``rule``."""
    return rule.name.lower().replace("_", "-")
