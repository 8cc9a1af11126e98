"""The parts of records as Arrow columns, and records joined from them.

One Arrow call joins header, parts and padding of all records, row by row, into one buffer of
consecutive records. numpy fills the headers before, and writes the checksums afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, MissingExtraError
from litemq.format.columns.record_columns import PARTS, TAGS_AT
from litemq.format.crc import crc32c_of_rows, crc32c_of_strings
from litemq.format.record import FIXED_BYTES, MAGIC, PRODUCER_BYTES_AT, SEVERAL_TAGS, STAMPED_BYTES_AT, Stage

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ModuleNotFoundError:
        raise MissingExtraError("encoding records from Arrow columns", "arrow") from None

__all__ = [
    "EncodedRecords",
    "compute_tag_hashes",
    "join_records",
    "list_part",
    "map_part",
    "shared_part",
    "string_part",
    "without_nulls",
]

Longs = npt.NDArray[np.int64]
Part = Any  # an array with one value per record, or a scalar that all share

_MAX_BYTES: Final = (1 << 31) - 1  # of all records: Arrow's offsets have 32 bits
_MAX_STRING_BYTES: Final = 0xFFFF
_PRODUCER_CRC_AT: Final = 8
_PAIRS: Final = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]))
_NOTHING: Final = pa.scalar(b"", pa.binary())
_PADDINGS: Final = pa.array([bytes(length) for length in range(8)], pa.binary())


class EncodedRecords(NamedTuple):
    """Consecutive records: record i is ``data[bounds[i] : bounds[i + 1]]``."""

    data: memoryview
    bounds: Longs


def join_records(header: npt.NDArray[Any], parts: Mapping[str, Part], stage: Stage) -> EncodedRecords:
    """Join headers and parts to records. Fill in lengths and checksums."""
    count = header.size
    unpadded = np.full(count, FIXED_BYTES, np.int64)
    for number, name in enumerate(PARTS):
        part = parts[name]
        lengths: Longs | int = len(part.as_py()) if isinstance(part, pa.Scalar) else np.diff(_bounds(part))
        if number < TAGS_AT:
            header["string_lengths"][:, number] = lengths
        else:
            header["part_lengths"][:, number - TAGS_AT] = lengths
        unpadded += lengths
    sizes = (unpadded + 7) & ~7
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    if bounds[-1] > _MAX_BYTES:
        raise InvalidArgumentError(f"{count} rows need {bounds[-1]} bytes: pass fewer rows, for less than 2 GiB")
    if count == 0:
        return EncodedRecords(memoryview(b""), bounds)
    header["size"] = sizes
    header["magic"] = MAGIC
    if stage is Stage.STORED:
        stamps = header.view(np.uint8).reshape(count, FIXED_BYTES)[:, STAMPED_BYTES_AT:PRODUCER_BYTES_AT]
        header["broker_crc"] = crc32c_of_rows(np.ascontiguousarray(stamps))
    paddings = _PADDINGS.take(pa.array(sizes - unpadded))
    joined = pc.binary_join_element_wise(_rows(header), *_merged(parts), paddings, b"")
    data = _octets(joined.buffers()[2])[: int(bounds[-1])]
    if not data.flags.writeable:
        data = data.copy()
    crcs = crc32c_of_strings(data, bounds[:-1] + PRODUCER_BYTES_AT, sizes - PRODUCER_BYTES_AT)
    np.ndarray((data.size - 3,), ">u4", data.data, 0, (1,))[bounds[:-1] + _PRODUCER_CRC_AT] = crcs
    return EncodedRecords(data.data, bounds)


def _merged(parts: Mapping[str, Part]) -> Iterator[Part]:
    """Yield the parts in their order, with adjacent shared parts merged to one."""
    shared = b""
    for name in PARTS:
        part = parts[name]
        if isinstance(part, pa.Scalar):
            shared += part.as_py()
            continue
        if shared:
            yield pa.scalar(shared, pa.binary())
            shared = b""
        yield part


def _rows(table: npt.NDArray[Any]) -> pa.Array:
    """Convert the items of a numpy array to Arrow binary values."""
    offsets = np.arange(table.size + 1, dtype=np.int32) * np.int32(table.dtype.itemsize)
    data = pa.py_buffer(np.ascontiguousarray(table))
    return pa.Array.from_buffers(pa.binary(), table.size, [None, pa.py_buffer(offsets), data])


def _octets(buffer: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.empty(0, np.uint8)


def _bounds(array: pa.Array) -> Longs:
    """Return the starts of the strings or lists of an array, and the end of the last."""
    if len(array) == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)


def without_nulls(array: pa.Array, what: str) -> pa.Array:
    """Return ``array``, or raise if it has a null."""
    if array.null_count:
        raise InvalidArgumentError(f"{what} is null in {array.null_count} of {len(array)} rows: set a value")
    return array


def shared_part(text: str, what: str) -> pa.Scalar:
    """Encode a string that all records share."""
    encoded = text.encode()
    _check_length(len(encoded), what)
    return pa.scalar(encoded, pa.binary())


def _check_length(length: int, what: str) -> None:
    if length > _MAX_STRING_BYTES:
        raise InvalidArgumentError(f"{what} of {length} bytes: use at most {_MAX_STRING_BYTES}")


def string_part(array: pa.Array | None, what: str) -> pa.Array | pa.Scalar:
    """Encode a string of each record; a null becomes an empty string."""
    if array is None:
        return _NOTHING
    texts = pc.fill_null(array.cast(pa.binary()), b"") if array.null_count else array.cast(pa.binary())
    _check_length(int(np.diff(_bounds(texts)).max(initial=0)), what)
    return texts


def _with_lengths(strings: pa.Array, what: str) -> tuple[pa.Array, pa.Array]:
    """Return the u16 lengths of strings, and the strings."""
    texts = without_nulls(strings, f"a {what}").cast(pa.binary())
    lengths = np.diff(_bounds(texts))
    _check_length(int(lengths.max(initial=0)), what)
    return _rows(lengths.astype(">u2")), texts


def _list_lengths(array: pa.Array) -> Longs:
    lengths = np.diff(_bounds(array))
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0  # a null may cover values
    return lengths


def list_part(array: pa.Array | None, what: str) -> pa.Array | pa.Scalar:
    """Encode lists of strings as in a record: each string preceded by its length."""
    if array is None or array.null_count == len(array):
        return _NOTHING
    return _regrouped(_list_lengths(array), *_with_lengths(array.flatten(), what))


def map_part(array: pa.Array | None) -> pa.Array | pa.Scalar:
    """Encode properties as lists of alternating names and values."""
    if array is None or array.null_count == len(array):
        return _NOTHING
    entries = array.cast(_PAIRS).flatten()
    names, values = (_with_lengths(entries.field(number), "property") for number in (0, 1))
    return _regrouped(_list_lengths(array), *names, *values)


def _regrouped(counts: Longs, *pieces: pa.Array) -> pa.Array:
    """Join the pieces of each entry, then ``counts[i]`` entries to row i."""
    joined = pc.binary_join_element_wise(*pieces, b"")
    ends = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    bounds = _bounds(joined)[ends].astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), counts.size, [None, pa.py_buffer(bounds), joined.buffers()[2]])


def compute_tag_hashes(tags: pa.Array, encoded: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the tag hash of each record, from its tags and their encoded part."""
    counts = _list_lengths(tags)
    hashes = np.where(counts > 1, np.uint32(SEVERAL_TAGS), np.uint32(0))
    single = np.flatnonzero(counts == 1)
    if single.size:
        bounds, data = _bounds(encoded), _octets(encoded.buffers()[2])
        begins = bounds[single] + 2
        crcs = crc32c_of_strings(data, begins, bounds[single + 1] - begins)
        crcs[(crcs == 0) | (crcs == SEVERAL_TAGS)] = 1
        hashes[single] = crcs
    return hashes
