"""The columns of a message in Spark and in archives: every field of its record, and the broker on which its queue is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from litemq.errors import InvalidArgumentError
from litemq.format.arrow.batches import SCHEMA

__all__ = ["BROKER", "MESSAGE_SCHEMA", "chosen_schema"]

BROKER: Final = "broker"
# A queue is (broker, topic, queue_id); a row's key is that and its queue_offset.
MESSAGE_SCHEMA: Final = SCHEMA.append(pa.field(BROKER, pa.string()))


def chosen_schema(names: Sequence[str]) -> pa.Schema:
    """Some of the columns, in the order in which they are named."""
    unknown = [name for name in names if name not in MESSAGE_SCHEMA.names]
    if unknown:
        raise InvalidArgumentError(f"no column {', '.join(map(repr, unknown))}: choose from {', '.join(MESSAGE_SCHEMA.names)}")
    if not names:
        raise InvalidArgumentError("no columns: name at least one; without it there would be no rows to count")
    return pa.schema([MESSAGE_SCHEMA.field(name) for name in names])
