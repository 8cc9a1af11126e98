"""Strings by column: the insides of tags, keys and properties of many records, walked side by side."""

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
    "all_alike",
    "all_utf8",
    "maybe_repeated_names",
    "nonascii",
    "rows_at",
    "spread",
    "walk_counted",
    "walk_lists",
]

Positions = npt.NDArray[np.int64]

# From here on few lists are still going: a numpy call for each of their strings costs more than plain Python does. Without this
# bound, one record with thousands of empty properties would make the whole batch wait for it.
_ROUNDS_TOGETHER: Final = 8
_FEW_LISTS: Final = 64
_VERY_FEW_LISTS: Final = 8

_GATHER_BYTES: Final = 1 << 20
COMPARED_BYTES: Final = 1024  # regions longer than this are looked at one by one


class Strings(NamedTuple):
    """Strings of a buffer: where each begins, and how long it is."""

    positions: Positions
    lengths: Positions

    def chosen(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> Strings:
        """Some of the strings."""
        return Strings(self.positions[which], self.lengths[which])


class StringLists(NamedTuple):
    """Lists of strings: list i has ``strings`` from ``offsets[i]`` to ``offsets[i + 1]``. ``broken`` names the lists that do not add up."""

    offsets: Positions
    strings: Strings
    ends: Positions
    broken: Positions

    @property
    def counts(self) -> Positions:
        """How many strings each list has."""
        return self.offsets[1:] - self.offsets[:-1]


def spread(firsts: Positions, counts: Positions, step: int = 1) -> Positions:
    """``firsts[i], firsts[i] + step, …``, ``counts[i]`` numbers of each, one behind another."""
    stops = np.cumsum(counts)
    numbers = np.arange(int(stops[-1]) if stops.size else 0)
    numbers -= np.repeat(stops - counts, counts)
    if step != 1:
        numbers *= step
    numbers += np.repeat(firsts, counts)
    return numbers


def _u16_at(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
    """The u16 that begins at each byte; the last byte has none, and reads as the one before it."""
    return np.ndarray((max(0, data.size - 1),), ">u2", data.data, 0, (1,))


def walk_lists(data: npt.NDArray[np.uint8], begins: Positions, ends: Positions, *, most: int) -> StringLists:
    """Walk lists that fill ``begins … ends`` exactly, each string a u16 length and its bytes.

    A list with more than ``most`` strings is broken, and is not walked further.
    """
    return _walk(data, begins, ends, None, most)


def walk_counted(data: npt.NDArray[np.uint8], begins: Positions, counts: Positions, ends: Positions) -> StringLists:
    """Walk lists of ``counts`` strings that begin at ``begins`` and may not reach beyond ``ends``."""
    return _walk(data, begins, ends, counts, data.size)


def _walk(data: npt.NDArray[np.uint8], begins: Positions, bounds: Positions, wanted: Positions | None, most: int) -> StringLists:
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
            _walk_one_by_one(data, lanes, number, ends, bounds, wanted, most, counts, rounds, broken)
            break
        if number == most:
            broken.append(lanes)
            break
        # A length that stands across the bound reads as anything; then the string's end is beyond the bound, too.
        length = lengths_at[np.minimum(at, lengths_at.size - 1)].astype(np.int64)
        position = at + 2
        following = position + length
        inside = following <= bound
        if not inside.all():
            broken.append(lanes[~inside])
            lanes, position, length, following, bound = (x[inside] for x in (lanes, position, length, following, bound))
        rounds.append((lanes, position, length))
        number += 1
        counts[lanes] = number
        ends[lanes] = following
        going = following < bound if wanted is None else number < wanted[lanes]
        if going.all():
            at = following
            continue
        lanes, at, bound = lanes[going], following[going], bound[going]
    return _assemble(counts, rounds, ends, broken)


def _walk_one_by_one(
    data: npt.NDArray[np.uint8],
    lanes: Positions,
    number: int,
    ends: Positions,
    bounds: Positions,
    wanted: Positions | None,
    most: int,
    counts: Positions,
    rounds: list[tuple[Positions, Positions, Positions]],
    broken: list[Positions],
) -> None:
    """Finish the few lists that are longer than the others. ``rounds`` then holds, for each, its remaining strings as one entry."""
    view = data.data
    for lane in lanes.tolist():
        at, bound = int(ends[lane]), int(bounds[lane])
        positions, lengths = array("q"), array("q")
        left = int(wanted[lane]) - number if wanted is not None else -1
        while left > 0 or (left < 0 and at < bound):
            if number + len(positions) == most or at + 2 > bound:
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
        # -1 - lane: these are consecutive strings of one list, not one string each of several lists.
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
    return StringLists(offsets, Strings(positions, lengths), ends, np.concatenate(broken) if broken else np.empty(0, np.int64))


def rows_at(data: npt.NDArray[np.uint8], positions: Positions, width: int) -> npt.NDArray[np.uint8]:
    """``data[p : p + width]`` for all positions, as the rows of a matrix: one copy of ``width`` bytes each."""
    items = np.ndarray((data.size - width + 1,), np.dtype((np.void, width)), data.data, 0, (1,))
    return items[positions].view(np.uint8).reshape(positions.size, width)


def all_alike(data: npt.NDArray[np.uint8], strings: Strings) -> bool:
    """Whether the strings are all the same, and not too long to be compared quickly."""
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
    """One list of every record: its tags, its keys, or the names and values of its properties."""

    def __init__(self, data: npt.NDArray[np.uint8], begins: Positions, ends: Positions, *, most: int, may_be_shared: bool) -> None:
        self.data = data
        self.begins = begins
        self.ends = ends
        self._most = most
        self._may_be_shared = may_be_shared

    @cached_property
    def is_empty(self) -> bool:
        """Whether no record has any."""
        return bool((self.begins == self.ends).all())

    @cached_property
    def is_shared(self) -> bool:
        """Whether all records have the same, as those of one producer often do: then the first speaks for all."""
        return self._may_be_shared and all_alike(self.data, Strings(self.begins, self.ends - self.begins))

    @property
    def first(self) -> bytes:
        """The first record's list."""
        return self.data[int(self.begins[0]) : int(self.ends[0])].tobytes()

    @cached_property
    def first_strings(self) -> list[bytes]:
        """The strings of the first record's list."""
        strings = walk_lists(self.data, self.begins[:1], self.ends[:1], most=self._most).strings
        return [self.data[p : p + n].tobytes() for p, n in zip(strings.positions.tolist(), strings.lengths.tolist(), strict=True)]

    @property
    def offsets(self) -> Positions:
        """How many strings the lists before each one have, and how many all have."""
        return np.arange(self.begins.size + 1) * len(self.first_strings) if self.is_shared else self.lists.offsets

    @cached_property
    def lists(self) -> StringLists:
        """The list of every record."""
        return walk_lists(self.data, self.begins, self.ends, most=self._most)


def nonascii(data: npt.NDArray[np.uint8], begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
    """Which of the regions hold a byte above 0x7F."""
    marks = np.zeros(begins.size, np.bool_)
    lengths = ends - begins
    longest, shortest = int(lengths.max()), int(lengths.min())
    if longest == 0:
        return marks
    if longest <= 2 * shortest and longest <= COMPARED_BYTES:
        # What begins the regions and what ends them, overlapping, is all of them.
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
    """Those of some lists of names and values in which two names have one hash: nearly always one name twice, but the names decide."""
    if among.size == 0:
        return among
    names = properties.counts[among] >> 1
    which = spread(properties.offsets[among], names, 2)
    hashes = crc32c_of_strings(data, *properties.strings.chosen(which))
    identities = np.sort(np.repeat(among, names) << 32 | hashes)
    doubtful = np.zeros(properties.offsets.size - 1, np.bool_)
    doubtful[identities[1:][identities[1:] == identities[:-1]] >> 32] = True
    return np.flatnonzero(doubtful)


def all_utf8(data: npt.NDArray[np.uint8], strings: Strings) -> bool:
    """Whether every one of the strings is valid UTF-8.

    They are copied one behind another with a zero byte between: no zero byte is part of a longer character, so the whole is
    valid exactly if each string is.
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
