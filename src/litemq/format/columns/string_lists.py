"""String lists by column: tags, keys and properties of many records, decoded in parallel."""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format.crc import crc32c_of_strings

__all__ = [
    "COMPARED_BYTES",
    "ListColumn",
    "StringLists",
    "Strings",
    "all_equal",
    "all_utf8",
    "maybe_repeated_names",
    "nonascii",
    "rows_at",
    "spread",
    "walk_counted",
    "walk_lists",
]

Positions = npt.NDArray[np.int64]

# After this number of rounds, few lists are unfinished, and plain Python is faster than a numpy
# call per round. Without this bound, one record with thousands of empty properties would slow down
# the whole batch.
_ROUNDS_TOGETHER: Final = 8
_FEW_LISTS: Final = 64
_VERY_FEW_LISTS: Final = 8

_GATHER_BYTES: Final = 1 << 20
COMPARED_BYTES: Final = 1024  # longer regions are checked one by one


class Strings(NamedTuple):
    """Strings of a buffer: their positions and lengths."""

    positions: Positions
    lengths: Positions

    def select(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> Strings:
        """Return the strings ``which``."""
        return Strings(self.positions[which], self.lengths[which])


class StringLists(NamedTuple):
    """Lists of strings: list i has the strings ``offsets[i]`` … ``offsets[i + 1]``.

    ``broken`` has the indexes of the lists that do not add up.
    """

    offsets: Positions
    strings: Strings
    ends: Positions
    broken: Positions

    @property
    def counts(self) -> Positions:
        """The number of strings of each list."""
        return self.offsets[1:] - self.offsets[:-1]


def spread(firsts: Positions, counts: Positions, step: int = 1) -> Positions:
    """Return ``firsts[i], firsts[i] + step, …``, ``counts[i]`` numbers for each i, concatenated."""
    stops = np.cumsum(counts)
    numbers = np.arange(int(stops[-1]) if stops.size else 0)
    numbers -= np.repeat(stops - counts, counts)
    if step != 1:
        numbers *= step
    numbers += np.repeat(firsts, counts)
    return numbers


def _u16_at(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
    """Return the u16 at each byte of ``data`` except the last."""
    return np.ndarray((max(0, data.size - 1),), ">u2", data.data, 0, (1,))


def walk_lists(data: npt.NDArray[np.uint8], begins: Positions, ends: Positions, *, max_strings: int) -> StringLists:
    """Decode lists that fill ``begins`` … ``ends`` exactly, each string a u16 length and its bytes.

    A list with more than ``max_strings`` strings is broken.
    """
    return _walk(data, begins, ends, None, max_strings)


def walk_counted(data: npt.NDArray[np.uint8], begins: Positions, counts: Positions, ends: Positions) -> StringLists:
    """Decode lists of ``counts`` strings at ``begins`` that may not exceed ``ends``."""
    return _walk(data, begins, ends, counts, data.size)


def _walk(
    data: npt.NDArray[np.uint8], begins: Positions, bounds: Positions, wanted: Positions | None, max_strings: int
) -> StringLists:
    lengths_at = _u16_at(data)
    if wanted is None and begins.size >= _VERY_FEW_LISTS:
        alone = lengths_at[np.minimum(begins, lengths_at.size - 1)].astype(np.int64)
        if (alone + 2 == bounds - begins).all():  # one string each: the usual case for tags and keys
            return StringLists(np.arange(begins.size + 1), Strings(begins + 2, alone), bounds, begins[:0])
    counts = np.zeros(begins.size, np.int64)
    ends = begins.copy()
    broken: list[Positions] = []
    rounds: list[tuple[Positions, Positions, Positions]] = []
    lanes = np.flatnonzero(begins < bounds if wanted is None else wanted > 0)
    at = begins[lanes]
    bound = bounds[lanes]
    number = 0
    while lanes.size:
        if lanes.size < _FEW_LISTS and (number >= _ROUNDS_TOGETHER or lanes.size < _VERY_FEW_LISTS):
            _walk_one_by_one(data, lanes, number, ends, bounds, wanted, max_strings, counts, rounds, broken)
            break
        if number == max_strings:
            broken.append(lanes)
            break
        # A length that crosses the bound may have any value; then the string exceeds it, too.
        length = lengths_at[np.minimum(at, lengths_at.size - 1)].astype(np.int64)
        position = at + 2
        string_end = position + length
        inside = string_end <= bound
        if not inside.all():
            broken.append(lanes[~inside])
            lanes, position, length, string_end, bound = (
                x[inside] for x in (lanes, position, length, string_end, bound)
            )
        rounds.append((lanes, position, length))
        number += 1
        counts[lanes] = number
        ends[lanes] = string_end
        unfinished = string_end < bound if wanted is None else number < wanted[lanes]
        if unfinished.all():
            at = string_end
            continue
        lanes, at, bound = lanes[unfinished], string_end[unfinished], bound[unfinished]
    return _assemble(counts, rounds, ends, broken)


def _walk_one_by_one(
    data: npt.NDArray[np.uint8],
    lanes: Positions,
    number: int,
    ends: Positions,
    bounds: Positions,
    wanted: Positions | None,
    max_strings: int,
    counts: Positions,
    rounds: list[tuple[Positions, Positions, Positions]],
    broken: list[Positions],
) -> None:
    """Finish the few longest lists. Append the remaining strings of each to ``rounds``."""
    view = data.data
    for lane in lanes.tolist():
        at, bound = int(ends[lane]), int(bounds[lane])
        positions, lengths = array("q"), array("q")
        left = int(wanted[lane]) - number if wanted is not None else -1
        while left > 0 or (left < 0 and at < bound):
            if number + len(positions) == max_strings or at + 2 > bound:
                broken.append(np.array([lane]))
                break
            length = view[at] << 8 | view[at + 1]
            if at + 2 + length > bound:
                broken.append(np.array([lane]))
                break
            positions.append(at + 2)
            lengths.append(length)
            at += 2 + length
            left -= left > 0
        counts[lane] = number + len(positions)
        ends[lane] = at
        # -1 - lane marks consecutive strings of one list, instead of one string of each list.
        rounds.append((np.array([-1 - lane]), np.frombuffer(positions, np.int64), np.frombuffer(lengths, np.int64)))


def _assemble(
    counts: Positions, rounds: list[tuple[Positions, Positions, Positions]], ends: Positions, broken: list[Positions]
) -> StringLists:
    offsets = np.empty(counts.size + 1, np.int64)
    offsets[0] = 0
    np.cumsum(counts, out=offsets[1:])
    total = int(offsets[-1])
    positions = np.empty(total, np.int64)
    lengths = np.empty(total, np.int64)
    number = 0
    for lanes, position, length in rounds:
        slot: Positions | slice
        if lanes.size and lanes[0] < 0:
            lane = -1 - int(lanes[0])
            slot = slice(int(offsets[lane + 1]) - position.size, int(offsets[lane + 1]))
        else:
            slot = offsets[lanes] + number
            number += 1
        positions[slot] = position
        lengths[slot] = length
    broken_lists = np.concatenate(broken) if broken else np.empty(0, np.int64)
    return StringLists(offsets, Strings(positions, lengths), ends, broken_lists)


def rows_at(data: npt.NDArray[np.uint8], positions: Positions, width: int) -> npt.NDArray[np.uint8]:
    """Return ``data[p : p + width]`` for all positions as rows of a matrix."""
    items = np.ndarray((data.size - width + 1,), np.dtype((np.void, width)), data.data, 0, (1,))
    return items[positions].view(np.uint8).reshape(positions.size, width)


def all_equal(data: npt.NDArray[np.uint8], strings: Strings) -> bool:
    """Return ``True`` if all strings are equal; ``False`` also if they are too long to compare."""
    if strings.lengths.size == 0:
        return True
    length = int(strings.lengths[0])
    if length > COMPARED_BYTES or (strings.lengths != length).any():
        return False
    if length == 0:
        return True
    rows = rows_at(data, strings.positions, length)
    return bool((rows == rows[0]).all())


class ListColumn:
    """A list of every record: tags, keys, or alternating names and values of properties."""

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        begins: Positions,
        ends: Positions,
        *,
        max_strings: int,
        may_be_shared: bool,
    ) -> None:
        self.data = data
        self.begins = begins
        self.ends = ends
        self._max_strings = max_strings
        self._may_be_shared = may_be_shared

    @cached_property
    def is_empty(self) -> bool:
        """Whether the lists of all records are empty."""
        return bool((self.begins == self.ends).all())

    @cached_property
    def is_shared(self) -> bool:
        """Whether all records have the same list, as those of one producer often do."""
        return self._may_be_shared and all_equal(self.data, Strings(self.begins, self.ends - self.begins))

    @property
    def first(self) -> bytes:
        """The encoded list of the first record."""
        return self.data[int(self.begins[0]) : int(self.ends[0])].tobytes()

    @cached_property
    def first_strings(self) -> list[bytes]:
        """The strings of the first record's list."""
        strings = walk_lists(self.data, self.begins[:1], self.ends[:1], max_strings=self._max_strings).strings
        bounds = zip(strings.positions.tolist(), strings.lengths.tolist(), strict=True)
        return [self.data[p : p + n].tobytes() for p, n in bounds]

    @property
    def offsets(self) -> Positions:
        """The number of strings before each list, and the total."""
        return np.arange(self.begins.size + 1) * len(self.first_strings) if self.is_shared else self.lists.offsets

    @cached_property
    def lists(self) -> StringLists:
        """The list of every record."""
        return walk_lists(self.data, self.begins, self.ends, max_strings=self._max_strings)


def nonascii(data: npt.NDArray[np.uint8], begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
    """Mark the regions with a byte above 0x7F."""
    marks = np.zeros(begins.size, np.bool_)
    lengths = ends - begins
    longest, shortest = int(lengths.max()), int(lengths.min())
    if longest == 0:
        return marks
    if longest <= 2 * shortest and longest <= COMPARED_BYTES:
        # The heads and the tails of the regions overlap and cover them completely.
        heads = rows_at(data, begins, shortest)
        tails = heads if longest == shortest else rows_at(data, ends - shortest, shortest)
        for rows in (heads, tails):
            if not rows.tobytes().isascii():
                marks |= (rows & 0x80).any(axis=1)
        return marks
    view = data.data
    for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        marks[number] = not view[begin:end].tobytes().isascii()
    return marks


def maybe_repeated_names(data: npt.NDArray[np.uint8], properties: StringLists, among: Positions) -> Positions:
    """Return those of ``among`` in which two names have the same hash; they may still differ."""
    if among.size == 0:
        return among
    names = properties.counts[among] >> 1
    which = spread(properties.offsets[among], names, 2)
    hashes = crc32c_of_strings(data, *properties.strings.select(which))
    identities = np.sort(np.repeat(among, names) << 32 | hashes)
    doubtful = np.zeros(properties.offsets.size - 1, np.bool_)
    doubtful[identities[1:][identities[1:] == identities[:-1]] >> 32] = True
    return np.flatnonzero(doubtful)


def all_utf8(data: npt.NDArray[np.uint8], strings: Strings) -> bool:
    """Return whether every string is valid UTF-8.

    Joins the strings with zero bytes. No zero byte is part of a longer character, so the whole is
    valid if and only if each string is.
    """
    positions, lengths = strings
    total = int(lengths.sum())
    try:
        if total > _GATHER_BYTES:
            view = data.data
            for p, n in zip(positions.tolist(), lengths.tolist(), strict=True):
                str(view[p : p + n], "utf-8")
        elif total:
            whole = np.zeros(total + positions.size, np.uint8)
            targets = np.cumsum(lengths) - lengths + np.arange(positions.size)
            whole[spread(targets, lengths)] = data[spread(positions, lengths)]
            str(whole.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
