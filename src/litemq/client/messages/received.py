"""The state of a received message, whose fields are decoded when one is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from litemq.client import native
from litemq.errors import LiteMQError
from litemq.format.messages import MessageFields

M = TypeVar("M", bound="ReceivedMessage")

__all__ = ["OffsetRun", "PythonReceivedMessage", "ReceivedMessage", "mark_settled", "offset_runs", "python_offset_runs"]


class PythonReceivedMessage:
    """The base of ``Message``. The C type makes it from a record, and copies only the body."""

    __slots__ = (
        "_attempt",
        "_body",
        "_codec",
        "_decoded",
        "_queue_offset",
        "_raw_body",
        "_settled",
        "_source",
        "_undecodable",
    )

    _source: Any  # a ``Source``
    _attempt: int  # the number of this delivery, from 1
    _queue_offset: int
    _raw_body: bytes  # as it is stored
    _codec: int  # of the raw body; 0: none
    _decoded: MessageFields | None  # ``None``: not yet
    _body: bytes | None  # decompressed
    _settled: bool
    _undecodable: LiteMQError | None  # the error of reading ``value``

    def _record(self) -> bytes:
        """Return the record that the message was made from."""
        raise NotImplementedError  # here, all fields are decoded at once


class OffsetRun(NamedTuple):
    """Messages of a list with one source, at consecutive offsets, all settled or all open."""

    source: Any  # a ``Source``
    begin: int  # in the list
    end: int
    offset: int  # of the first one
    settled: bool


def python_offset_runs(messages: Sequence[ReceivedMessage]) -> list[OffsetRun]:
    """Split ``messages`` into runs."""
    runs: list[OffsetRun] = []
    for number, message in enumerate(messages):
        source, offset, settled = message._source, message._queue_offset, message._settled  # noqa: SLF001  its base
        if runs:
            last = runs[-1]
            if last.source is source and last.settled is settled and offset == last.offset + last.end - last.begin:
                runs[-1] = last._replace(end=number + 1)
                continue
        runs.append(OffsetRun(source, number, number + 1, offset, settled))
    return runs


def offset_runs(messages: list[M]) -> list[OffsetRun]:
    """Split ``messages`` into runs, in the order of the list."""
    if native.enabled:
        return [OffsetRun(*run) for run in native.receiving.runs(messages)]
    return python_offset_runs(messages)


def mark_settled(messages: list[M], begin: int, end: int) -> None:
    """Mark the messages from ``begin`` to before ``end`` as settled."""
    if native.enabled:
        native.receiving.mark_settled(messages, begin, end)
    else:
        for message in messages[begin:end]:
            message._settled = True  # noqa: SLF001  its base


if TYPE_CHECKING:
    ReceivedMessage = native.receiving.ReceivedMessage
else:
    ReceivedMessage = native.receiving.ReceivedMessage if native.enabled else PythonReceivedMessage
