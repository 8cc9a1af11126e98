"""``litemq bench suite format``: the codecs, on one core.

A record has an id, a topic, a host, one tag, one key, two properties and a body of random bytes.
The *alike* records come from one template, as those of one producer, and have the same size. The
*mixed* records alternate tags, keys and bodies of different lengths, so that no two neighbours have
the same layout.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import numpy as np

from litemq.bench.suite import Figure, at_least
from litemq.errors import MissingExtraError
from litemq.format.batches.check import check_batch
from litemq.format.batches.scan import scan
from litemq.format.batches.stamp import queue_entries, single_queue_run, stamp_batch
from litemq.format.crc import crc32c
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate, stamp_record
from litemq.types import Stamp

__all__ = ["figures"]

_TAGS = ("created", "paid", "shipped", "returned")
_SCALAR_SAMPLE = 20_000
_NOW = 1_700_000_000_000


def _templates() -> list[RecordTemplate]:
    properties = {"region": "eu-west-1", "tenant": "acme"}
    return [
        RecordTemplate("orders", tags=[tag], properties=properties, born_host="10.0.0.17:51234", producer_id=7)
        for tag in _TAGS
    ]


def _sent(count: int, size: int, *, mixed: bool = False) -> Iterator[bytes]:
    """Yield ``count`` records of about ``size`` bytes, as a producer sends them."""
    randomness = random.Random(count * size)
    templates = _templates()
    fixed = len(templates[0].encode(b"", message_id=_message_id(0), keys=("order-000000",)))
    for number in range(count):
        template = templates[number % len(_TAGS) if mixed else 0]
        body = randomness.randbytes(size - fixed + (randomness.randrange(-16, 17) if mixed else 0))
        key = f"order-{number}" if mixed else f"order-{number % 1_000_000:06d}"
        yield template.encode(
            body, message_id=_message_id(number), keys=(key,), born_timestamp=_NOW + number // 100, sequence=number
        )


def _message_id(number: int) -> str:
    return f"0190c3f1a2b3c4d5-{number:010d}"


def _stored(count: int, size: int, *, mixed: bool = False) -> bytes:
    """Return the same records as they are stored in a log."""
    log = bytearray()
    for number, record in enumerate(_sent(count, size, mixed=mixed)):
        position = len(log)
        log += record
        stamp_record(log, position, Stamp(position, number, _NOW + number // 100, topic_id=3, queue_id=1, epoch=1))
    return bytes(log)


def _rate(amount: float, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return amount / (time.perf_counter() - begin)


class _Data:
    """The test records, generated once, since that takes longer than decoding them."""

    def __init__(self, scale: float) -> None:
        self.count = max(1000, int(1_000_000 * scale))
        self.appended = max(10_000, self.count // 10)

        self.small = _stored(self.count, 296)
        self.small_mixed = _stored(self.count, 296, mixed=True)
        self.large = _stored(self.count // 4, 1024)
        self.sent = b"".join(_sent(1000, 1024))
        self.sent_mixed = b"".join(_sent(1000, 1024, mixed=True))


def figures(scale: float) -> list[Figure]:
    """Return the figures of the codecs with their goals."""
    try:
        from litemq.format.arrow.batches import decode_batches
    except MissingExtraError as error:
        raise MissingExtraError("litemq bench suite format", error.extra) from None

    data = _Data(scale)

    def to_arrow(buffer: bytes, *, verify_crc: bool) -> int:
        return sum(batch.num_rows for batch in decode_batches(buffer, verify_crc=verify_crc))

    def decode_columns() -> float:
        return _rate(data.count, lambda: to_arrow(data.small, verify_crc=False))

    return [
        Figure(
            "arrow_all_columns",
            "300 B alike to Arrow, CRCs not checked",
            "record/s",
            decode_columns,
            at_least(1_500_000),
        ),
        Figure(
            "arrow_over_scalar",
            "the same / scalar_decode",
            "×",
            lambda: decode_columns() / _decode_scalar(data),
            at_least(10),
        ),
        Figure(
            "arrow_all_columns_crc",
            "300 B alike to Arrow, CRCs checked",
            "record/s",
            lambda: _rate(data.count, lambda: to_arrow(data.small, verify_crc=True)),
            at_least(800_000),
        ),
        Figure(
            "arrow_mixed",
            "300 B mixed to Arrow, CRCs not checked",
            "record/s",
            lambda: _rate(data.count, lambda: to_arrow(data.small_mixed, verify_crc=False)),
        ),
        Figure(
            "arrow_1k_bytes",
            "1 KiB alike to Arrow, CRCs not checked",
            "B/s",
            lambda: _rate(len(data.large), lambda: to_arrow(data.large, verify_crc=False)),
            at_least(1e9),
        ),
        *_append_figures(data),
        Figure(
            "bare_crc32c", "the library's checksum of 1 KiB, one call each: speed of this machine", "call/s", _bare_crc
        ),
        Figure(
            "scalar_decode",
            "one record of 300 B at a time, CRCs not checked",
            "record/s",
            lambda: _decode_scalar(data),
        ),
        Figure("scalar_encode", "one message at a time from a template", "message/s", _encode, at_least(400_000)),
    ]


def _append_figures(data: _Data) -> list[Figure]:
    return [
        Figure(
            "append_path_1000",
            "validate, stamp, queue entries: 1,000 of 1 KiB",
            "record/s",
            lambda: _append(data.sent, 1000, data.appended),
            at_least(700_000),
        ),
        Figure(
            "append_path_100",
            "the same in batches of 100",
            "record/s",
            lambda: _append(data.sent, 100, data.appended),
            at_least(400_000),
        ),
        Figure(
            "append_path_1000_mixed",
            "the same, 1,000 of 1 KiB mixed",
            "record/s",
            lambda: _append(data.sent_mixed, 1000, data.appended),
        ),
    ]


def _decode_scalar(data: _Data) -> float:
    starts = scan(data.small).starts[:_SCALAR_SAMPLE].tolist()

    def work() -> None:
        for start in starts:
            decode_record(data.small, start, verify_crc=False)

    return _rate(len(starts), work)


def _encode() -> float:
    template = _templates()[0]
    body = bytes(100)
    identifiers = [_message_id(number) for number in range(_SCALAR_SAMPLE)]

    def work() -> None:
        for number, message_id in enumerate(identifiers):
            template.encode(body, message_id=message_id, keys=("order-000001",), born_timestamp=_NOW, sequence=number)

    return _rate(len(identifiers), work)


def _bare_crc(calls: int = 100_000) -> float:
    view = memoryview(bytes(1024 * 100))

    def work() -> None:
        for _ in range(calls // 100):
            for begin in range(0, 1024 * 100, 1024):
                crc32c(view[begin : begin + 960])

    return _rate(calls, work)


def _append(sent: bytes, batch: int, total: int) -> float:
    """Measure what a broker does with a batch, in place.

    The copy into the buffer replaces the network's and is not counted.
    """
    starts = scan(sent).starts
    first = sent[: int(starts[batch]) if batch < starts.size else len(sent)]
    buffer = bytearray(first)
    spent = 0.0
    offset = 0
    for _ in range(total // batch):
        buffer[:] = first
        begin = time.perf_counter()
        columns = check_batch(buffer)
        offsets = columns.starts + offset
        numbers = np.arange(offset, offset + len(columns))
        stamp_batch(
            columns,
            commitlog_offsets=offsets,
            queue_offsets=numbers,
            topic_ids=3,
            queue_ids=1,
            store_timestamp=_NOW,
            epoch=1,
        )
        queue_entries(columns, single_queue_run(3, 1, len(columns)), commitlog_offsets=offsets, store_timestamps=_NOW)
        spent += time.perf_counter() - begin
        offset += len(first)
    return total / spent
