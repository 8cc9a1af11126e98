"""Topics of handlers, created before the handlers run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.errors import LiteMQError, TopicNotFoundError

__all__ = ["declare_topics"]

_LOG = logging.getLogger(__name__)


async def declare_topics(topics: Iterable[str], find: Callable[[str], Awaitable[object]], config: ClientConfig) -> None:
    """Find each of ``topics``; ``find`` creates a missing one if the brokers allow it.

    Wait while no broker answers: a worker may start before its cluster.

    Raises:
        TopicNotFoundError: Topics are missing, and the brokers do not create topics.
        LiteMQError: A topic cannot be found for another reason.
    """
    missing = [topic for topic in dict.fromkeys(topics) if not await _is_found(topic, find, config)]
    if missing:
        raise TopicNotFoundError(
            f"the handlers' topics {', '.join(missing)} do not exist: create each one with `litemq topic create NAME`, "
            "or set topics.auto_create (--auto-create-topics) on the broker"
        )


async def _is_found(topic: str, find: Callable[[str], Awaitable[object]], config: ClientConfig) -> bool:
    backoff = Backoff(config.retry_backoff_ms, config.max_retry_backoff_ms)
    is_first = True
    while True:
        try:
            await find(topic)
        except TopicNotFoundError:
            return False
        except LiteMQError as error:
            if not error.retriable:
                raise
            _LOG.log(logging.WARNING if is_first else logging.DEBUG, "waiting for topic %s: %s", topic, error)
            is_first = False
        else:
            return True
        await asyncio.sleep(backoff.next_delay())
