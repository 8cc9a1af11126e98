"""Options of a write, and the columns that it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from litemq.errors import InvalidArgumentError
from litemq.spark.options import OptionReader, nearest
from litemq.types import check_name

__all__ = ["COLUMNS", "WriteOptions", "check_columns"]

# Spark types that each column may have.
_TEXT: Final = ("string",)
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": _TEXT,
    "keys": ("array<string>",),
    "tags": ("array<string>",),
    "properties": ("map<string,string>",),
    "deliver_at": ("timestamp",),
    "ordering_key": _TEXT,
    "priority": _NUMBERS,
    "message_id": _TEXT,
}

_OPTIONS: Final = ("url", "topic", "jobId")
_SPARK_OPTIONS: Final = ("checkpointLocation", "path", "queryName")  # Spark passes them on
_MAX_JOB_BYTES: Final = 128


class WriteOptions(NamedTuple):
    """The options of ``df.write.format("litemq")``."""

    url: str
    topic: str = ""  # of rows without a topic
    job: str = ""  # id of a batch job, which writes once however often it is repeated

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse Spark's options, whose names are in lower case."""
        given = OptionReader(options, (*_OPTIONS, *_SPARK_OPTIONS), of="the litemq sink")
        url = given.needed("url", "litemq://127.0.0.1:9876")
        topic, job = given.text("topic") or "", given.text("jobId") or ""
        if topic:
            check_name(topic)
        if "/" in job or len(job.encode()) > _MAX_JOB_BYTES:
            raise InvalidArgumentError(f"option jobId={job!r}: use at most {_MAX_JOB_BYTES} bytes without '/'")
        return cls(url, topic, job)


def check_columns(columns: Mapping[str, str], *, has_topic: bool) -> None:
    """Raise if a column is unknown or has a wrong type, or if a required column is missing.

    ``columns`` maps names to Spark types.
    """
    for name, given in columns.items():
        allowed = COLUMNS.get(name)
        if allowed is None:
            raise InvalidArgumentError(
                f"column {name!r} cannot be written.{nearest(name, COLUMNS)} "
                f"Drop or rename it: the columns are {', '.join(COLUMNS)}"
            )
        if given not in allowed:
            raise InvalidArgumentError(f"column {name!r} has type {given}: cast it to {' or '.join(allowed)}")
    if "body" not in columns:
        raise InvalidArgumentError(
            "no column 'body': add it; to write the whole row, use to_json(struct('*')).alias('body')"
        )
    if "topic" not in columns and not has_topic:
        raise InvalidArgumentError("no topic: use .option('topic', 'orders'), or a column 'topic'")
