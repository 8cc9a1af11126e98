"""Events of half messages, decoded from the records of the log.

A *half* is a record of a transaction in the half topic. It is invisible until its transaction is
committed; then it is copied to its queue.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HalfDied", "HalfEvent", "HalfMoved", "HalvesCopied", "HalvesPlaced"]


class HalvesPlaced(NamedTuple):
    """Consecutive halves of one transaction in the half topic, all for the same queue."""

    transaction: str
    topic: str
    topic_id: int
    queue_id: int
    first_log_offset: int
    last_log_offset: int
    first_half_offset: int
    length: int
    bytes: int
    store_timestamp: int
    check_after_ms: int = 0  # of a producer's transaction; 0: the topic's setting
    max_checks: int = 0  # the same


class HalvesCopied(NamedTuple):
    """The next ``length`` halves of a transaction were copied to their queues."""

    transaction: str
    length: int


class HalfMoved(NamedTuple):
    """The half of a producer's transaction at ``origin`` was carried forward."""

    transaction: str
    origin: int
    log_offset: int
    half_offset: int


class HalfDied(NamedTuple):
    """The next half of a producer's transaction became a dead letter."""

    transaction: str


HalfEvent = HalvesPlaced | HalvesCopied | HalfMoved | HalfDied
