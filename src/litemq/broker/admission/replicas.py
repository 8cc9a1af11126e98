"""Durability ``replicas``: which brokers accept it, and when."""

from __future__ import annotations

from typing import Final

from litemq.errors import UnsupportedFeatureError
from litemq.errors.detached import detached
from litemq.storage.store import Store
from litemq.types import Durability

__all__ = ["check_enough_replicas", "check_replicated"]

_REPLICAS: Final = int(Durability.REPLICAS)


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
