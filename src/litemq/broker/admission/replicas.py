"""Admission in a replicated group: levels that need replicas, and bytes that wait for them."""

from __future__ import annotations

from typing import Final

from litemq.errors import (
    LiteMQError,
    NotConfirmedError,
    NotEnoughReplicasError,
    OverloadedError,
    UnsupportedFeatureError,
)
from litemq.errors.detached import detached
from litemq.storage.state import Topic
from litemq.storage.store import Store
from litemq.types import Durability

__all__ = ["check_enough_replicas", "check_replicated", "check_unreplicated", "too_few_confirmed", "topic_refusal"]

_REPLICAS: Final = int(Durability.REPLICAS)
_RETRY_AFTER_MS: Final = 200


def check_replicated(store: Store, level: int) -> None:
    """Raise if ``level`` needs a replicated group, and ``store`` belongs to none."""
    if level >= _REPLICAS and not store.is_replicated:
        raise UnsupportedFeatureError(
            "durability 'replicas' is not supported, because this broker has no replicas: choose 'disk'"
        )


def topic_refusal(store: Store, topic: Topic | None) -> LiteMQError | None:
    """Return why records of durability ``replicas`` are refused in ``topic`` now, or ``None``."""
    refusal = store.replica_refusal
    if refusal is None and topic is not None and store.in_sync < topic.min_in_sync:
        return NotEnoughReplicasError(
            f"{_describe(store, topic)}. Start the missing replicas, or send with durability 'disk'"
        )
    return refusal


def too_few_confirmed(store: Store, topic: Topic) -> LiteMQError | None:
    """Return why a confirmed record of ``topic`` is not acknowledged, or ``None``.

    The in-sync set may have become smaller since the record was accepted.
    """
    if store.in_sync >= topic.min_in_sync:
        return None
    return NotConfirmedError(f"the record was written and confirmed, but {_describe(store, topic)}")


def _describe(store: Store, topic: Topic) -> str:
    are = "replica is" if store.in_sync == 1 else "replicas are"
    text = f"{store.in_sync} {are} in sync, and min_in_sync of topic {topic.name!r} is {topic.min_in_sync}"
    return f"{text}; not in sync: {store.not_in_sync}" if store.not_in_sync else text


def check_enough_replicas(store: Store, topic: Topic, level: int) -> None:
    """Raise if new records of ``level`` are refused, because the group cannot confirm them now."""
    if level >= _REPLICAS:
        refusal = topic_refusal(store, topic)
        if refusal is not None:
            raise detached(refusal)


def check_unreplicated(store: Store, max_bytes: int) -> None:
    """Raise if more than ``max_bytes`` of the log wait for the other replicas of the group."""
    waiting = store.log_end - store.confirm_offset if store.is_replicated else 0
    if waiting > max_bytes:
        raise OverloadedError(
            f"{waiting >> 20} MiB are waiting for the other replicas of the group: start those that `litemq cluster "
            "status` shows as missing. No message is accepted until then",
            _RETRY_AFTER_MS,
        )
