"""A subscription: a handler with its topic, group and options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypedDict, get_args

from litemq.client.config import ConsumeMode
from litemq.client.handlers.breaker import FailureLimits
from litemq.client.handlers.result_sender import ResultSender
from litemq.client.settling.ack_policy import AckPolicy, SettlePolicy
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.client.times import seconds
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["ConsumerOptions", "HandlerOptions", "Subscription", "new_subscription"]

_MAX_CONCURRENCY: Final = 10_000
_TIME_LIMIT_S: Final = 180.0
_LEASE_S: Final = 60.0
# Leased messages have no order to keep.
_LEASE_CONCURRENCY: Final = 16


class HandlerOptions(TypedDict, total=False):
    """The common options of ``@mq.subscriber`` and ``@mq.task``.

    Durations are seconds or a timedelta.
    """

    mode: ConsumeMode  # default: "queue" for subscribers, "lease" for tasks
    concurrency: int  # concurrent calls
    time_limit: float | timedelta | None  # of one call, default 180; None: no limit
    lease: float | timedelta  # renewed while a call runs
    breaker: FailureLimits | None  # when the handler is paused; None: never
    tags: str | Sequence[str]  # deliver only messages with one of these tags
    where: str  # deliver only messages that match this condition
    ordered: bool  # one message of an ordering key at a time; not in lease mode
    ack_policy: AckPolicy
    # As in RetryPolicy:
    max_retries: int
    min_backoff: float | timedelta
    max_backoff: float | timedelta
    jitter: float
    delays: Sequence[float | timedelta]
    throws: tuple[type[Exception], ...]


class ConsumerOptions(TypedDict):
    """The arguments of ``mq.consumer`` that depend on a handler."""

    group_id: str
    mode: ConsumeMode
    lease: float
    max_poll_records: int | None
    ack_policy: AckPolicy
    retry: RetryPolicy
    tags: str | Sequence[str]
    where: str
    ordered: bool


_RETRY_OPTIONS: Final = ("max_retries", "min_backoff", "max_backoff", "jitter", "delays", "throws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The declaration of one handler."""

    topic: str
    group_id: str
    handler: Callable[[Any], object]
    mode: ConsumeMode
    concurrency: int | None  # None: as ``run`` decides
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
    results: ResultSender | None = None  # of a task
    result_ttl_ms: int = 0

    @property
    def name(self) -> str:
        """The name in logs and errors."""
        return f"{getattr(self.handler, '__name__', 'a handler')} of {self.topic}"

    @property
    def settle_policy(self) -> SettlePolicy:
        return SettlePolicy(self.ack_policy, self.retry)

    @property
    def default_concurrency(self) -> int:
        """The concurrency if none is set. Queues are handled in order, so 1 in queue mode."""
        return _LEASE_CONCURRENCY if self.mode == "lease" else 1

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)

    def consumer_options(self, concurrency: int) -> ConsumerOptions:
        """Return the options of its consumer.

        In lease mode it prefetches only what it handles soon.
        """
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
    """Check the arguments of a decorator and return the subscription.

    Raises:
        InvalidArgumentError: An option is unknown or invalid.
    """
    known = HandlerOptions.__optional_keys__
    if unknown := sorted(set(options) - known):
        raise InvalidArgumentError(f"{', '.join(unknown)}: unknown option: choose from {', '.join(sorted(known))}")
    mode = options.get("mode", "queue")
    if mode not in get_args(ConsumeMode):
        raise InvalidArgumentError(f"mode={mode!r}: choose one of {', '.join(get_args(ConsumeMode))}")
    policy = options.get("ack_policy", AckPolicy.NACK_ON_ERROR)
    if not isinstance(policy, AckPolicy):
        raise InvalidArgumentError(f"ack_policy={policy!r}: choose one of litemq.AckPolicy")
    retry: dict[str, Any] = {name: value for name, value in options.items() if name in _RETRY_OPTIONS}
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
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_CONCURRENCY:
        raise InvalidArgumentError(f"{name}={value!r}: choose a whole number, 1 … {_MAX_CONCURRENCY}")
    return value


def _positive(name: str, value: float | timedelta) -> float:
    number = seconds(value, name)
    if not number:
        raise InvalidArgumentError(f"{name}={value!r}: choose more than 0")
    return number
