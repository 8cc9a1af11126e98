"""Columns of a message in Spark and in archives: the fields of its record, and its broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from litemq.errors import InvalidArgumentError
from litemq.format.arrow.batches import SCHEMA

__all__ = ["BROKER", "MESSAGE_SCHEMA", "chosen_schema"]

BROKER: Final = "broker"
# A queue is (broker, topic, queue_id). The key of a row is its queue and its queue_offset.
MESSAGE_SCHEMA: Final = SCHEMA.append(pa.field(BROKER, pa.string()))


def chosen_schema(names: Sequence[str]) -> pa.Schema:
    """Return the schema of the columns ``names``, in their order."""
    unknown = [name for name in names if name not in MESSAGE_SCHEMA.names]
    if unknown:
        raise InvalidArgumentError(
            f"unknown column {', '.join(map(repr, unknown))}: choose from {', '.join(MESSAGE_SCHEMA.names)}"
        )
    if not names:
        raise InvalidArgumentError("no columns selected: select at least one, so that rows can be counted")
    return pa.schema([MESSAGE_SCHEMA.field(name) for name in names])
