"""Admission in a replicated group: levels that need replicas, and bytes that wait for them."""

from __future__ import annotations

from typing import Final

from litemq.errors import OverloadedError, UnsupportedFeatureError
from litemq.errors.detached import detached
from litemq.storage.store import Store
from litemq.types import Durability

__all__ = ["check_enough_replicas", "check_replicated", "check_unreplicated"]

_REPLICAS: Final = int(Durability.REPLICAS)
_RETRY_AFTER_MS: Final = 200


def check_replicated(store: Store, level: int) -> None:
    """Raise if ``level`` needs a replicated group, and ``store`` belongs to none."""
    if level >= _REPLICAS and not store.is_replicated:
        raise UnsupportedFeatureError(
            "durability 'replicas' is not supported, because this broker has no replicas: choose 'disk'"
        )


def check_enough_replicas(store: Store, level: int) -> None:
    """Raise if new records of ``level`` are refused, because the group cannot confirm them now."""
    if level >= _REPLICAS:
        refusal = store.replica_refusal
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
