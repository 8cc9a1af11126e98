"""A handler: the function, the messages that it is called with, and how."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypedDict, get_args

from litemq.client.config import ConsumeMode
from litemq.client.handlers.breaker import FailureLimits
from litemq.client.settling.ack_policy import AckPolicy
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.client.times import seconds
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["ConsumerOptions", "HandlerOptions", "Subscription", "new_subscription"]

_MOST_AT_ONCE: Final = 10_000
_TIME_LIMIT_S: Final = 180.0
_LEASE_S: Final = 60.0
# Under leases nothing is in order anyway.
_LEASED_AT_ONCE: Final = 16


class HandlerOptions(TypedDict, total=False):
    """What ``@mq.subscriber`` and ``@mq.task`` have in common; durations are seconds, or a timedelta."""

    mode: ConsumeMode  # "queue" for subscribers, "lease" for tasks, where nothing is said
    concurrency: int  # messages, or batches, at the same time
    time_limit: float | timedelta | None  # of one call; None: it may take for ever. 180 where nothing is said
    lease: float | timedelta  # renewed while a call runs
    breaker: FailureLimits | None  # when it is paused; None: never
    tags: str | Sequence[str]  # only messages with one of them
    where: str  # only messages for which this holds
    ordered: bool  # not in lease mode: one message of an ordering key at a time, however many calls there are
    ack_policy: AckPolicy
    # As in RetryPolicy:
    max_retries: int
    min_backoff: float | timedelta
    max_backoff: float | timedelta
    jitter: float
    delays: Sequence[float | timedelta]
    throws: tuple[type[Exception], ...]


class ConsumerOptions(TypedDict):
    """The arguments of ``mq.consumer`` that a handler decides."""

    group_id: str
    mode: ConsumeMode
    lease: float
    max_poll_records: int | None
    ack_policy: AckPolicy
    retry: RetryPolicy
    tags: str | Sequence[str]
    where: str
    ordered: bool


_OF_RETRIES: Final = ("max_retries", "min_backoff", "max_backoff", "jitter", "delays", "throws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What one handler was declared with."""

    topic: str
    group_id: str
    handler: Callable[[Any], object]
    mode: ConsumeMode
    concurrency: int | None  # None: whoever runs it decides
    time_limit: float | None
    lease: float
    breaker: FailureLimits | None
    tags: str | Sequence[str]
    where: str
    ordered: bool
    ack_policy: AckPolicy
    retry: RetryPolicy
    batch: int | None
    batch_wait: float

    @property
    def name(self) -> str:
        """For people."""
        return f"{getattr(self.handler, '__name__', 'a handler')} of {self.topic}"

    @property
    def default_concurrency(self) -> int:
        """Where nobody said anything: what is read in order is handled in order."""
        return _LEASED_AT_ONCE if self.mode == "lease" else 1

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)

    def consumer_options(self, concurrency: int) -> ConsumerOptions:
        """Return how the handler consumes. Under leases it prefetches only what it handles soon: other workers may be idle."""
        return {
            "group_id": self.group_id,
            "mode": self.mode,
            "lease": self.lease,
            "max_poll_records": concurrency * (self.batch or 1) if self.mode == "lease" else None,
            "ack_policy": self.ack_policy,
            "retry": self.retry,
            "tags": self.tags,
            "where": self.where,
            "ordered": self.ordered,
        }


def new_subscription(
    topic: str,
    group_id: str,
    handler: Callable[[Any], object],
    options: HandlerOptions,
    *,
    batch: int | None = None,
    batch_wait: float | timedelta = 0.0,
) -> Subscription:
    """Check what was said, and put it together."""
    known = HandlerOptions.__optional_keys__
    if unknown := sorted(set(options) - known):
        raise InvalidArgumentError(f"{', '.join(unknown)}: no such option; there are {', '.join(sorted(known))}")
    mode = options.get("mode", "queue")
    if mode not in get_args(ConsumeMode):
        raise InvalidArgumentError(f"mode={mode!r}: choose one of {', '.join(get_args(ConsumeMode))}")
    policy = options.get("ack_policy", AckPolicy.NACK_ON_ERROR)
    if not isinstance(policy, AckPolicy):
        raise InvalidArgumentError(f"ack_policy={policy!r}: choose one of litemq.AckPolicy")
    retry: dict[str, Any] = {name: value for name, value in options.items() if name in _OF_RETRIES}
    limit = options.get("time_limit", _TIME_LIMIT_S)
    return Subscription(
        topic=check_name(topic),
        group_id=check_name(group_id, "group"),
        handler=handler,
        mode=mode,
        concurrency=_count("concurrency", options["concurrency"]) if "concurrency" in options else None,
        time_limit=None if limit is None else _positive("time_limit", limit),
        lease=_positive("lease", options.get("lease", _LEASE_S)),
        breaker=options.get("breaker", FailureLimits()),
        tags=options.get("tags", ()),
        where=options.get("where", ""),
        ordered=options.get("ordered", False),
        ack_policy=policy,
        retry=RetryPolicy(**retry),
        batch=None if batch is None else _count("batch", batch),
        batch_wait=seconds(batch_wait, "batch_wait"),
    )


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_AT_ONCE:
        raise InvalidArgumentError(f"{name}={value!r}: choose a whole number, 1 … {_MOST_AT_ONCE}")
    return value


def _positive(name: str, value: float | timedelta) -> float:
    number = seconds(value, name)
    if not number:
        raise InvalidArgumentError(f"{name}={value!r}: choose more than 0")
    return number
