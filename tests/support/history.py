"""The recorded history of a cluster, and a checker of its invariants, for tests that kill servers.

A *position* is (broker, queue, offset). The name of a message is its producer, key and number; the
checker compares only names. There is no I/O: the checker's own tests make good and bad histories by
hand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

Position = tuple[str, int, int]


class Name(NamedTuple):
    """One message: its producer, key and number. Messages without a key have no order."""

    producer: int
    key: str
    number: int

    def to_bytes(self) -> bytes:
        return f"{self.producer}/{self.key}/{self.number}".encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Name:
        producer, key, number = body.split(b" ", 1)[0].decode().split("/")
        return cls(int(producer), key, int(number))


class Outcome(Enum):
    """The outcome of a send, as its producer knows it."""

    ACKED = "acked"
    UNKNOWN = "unknown"  # it may be stored or not; also before the answer
    REFUSED = "refused"  # it is not stored


@dataclass
class History:
    """All recorded events. ``log`` has the messages that a reader found at the end, by queue."""

    outcomes: dict[Name, Outcome] = field(default_factory=dict)
    receipts: dict[Name, Position] = field(default_factory=dict)
    # By consumer (its group, and its number in the group), in the order of delivery.
    deliveries: dict[tuple[str, int], list[tuple[Name, Position]]] = field(default_factory=lambda: defaultdict(list))
    log: list[tuple[Name, Position]] = field(default_factory=list)
    # Producers whose acknowledged messages may be lost: the faults are worse than their durability.
    unsafe: frozenset[int] = frozenset()
    # By reader without a group, while the faults lasted.
    reads: dict[str, list[tuple[Name, Position]]] = field(default_factory=dict)
    # Monotonic times, if the load records them.
    sent_at: dict[Name, float] = field(default_factory=dict)
    acked_at: dict[Name, float] = field(default_factory=dict)
    wrong_rates: list[tuple[float, float]] = field(default_factory=list)  # of the time of brokers

    def begin(self, name: Name, at: float | None = None) -> None:
        assert name not in self.outcomes, f"{name} was sent before: the history is of no use"
        self.outcomes[name] = Outcome.UNKNOWN
        if at is not None:
            self.sent_at[name] = at

    def acked(self, name: Name, position: Position, at: float | None = None) -> None:
        self.outcomes[name] = Outcome.ACKED
        self.receipts[name] = position
        if at is not None:
            self.acked_at[name] = at

    def refused(self, name: Name) -> None:
        self.outcomes[name] = Outcome.REFUSED

    def delivered(self, group: str, life: int, name: Name, position: Position) -> None:
        self.deliveries[group, life].append((name, position))

    def count(self, outcome: Outcome) -> int:
        return sum(1 for each in self.outcomes.values() if each is outcome)

    @property
    def groups(self) -> set[str]:
        return {group for group, _ in self.deliveries}

    def seen_by(self, group: str) -> Counter[Name]:
        """Return the messages that a group received, with counts."""
        return Counter(name for (of, _), seen in self.deliveries.items() if of == group for name, _ in seen)

    @property
    def repeated(self) -> int:
        """Return the number of repeated deliveries."""
        return sum(seen.total() - len(seen) for seen in map(self.seen_by, self.groups))


def problems(history: History) -> list[str]:
    """Return violated invariants, the first few of each kind; empty if there are none."""
    checks = (
        _lost,
        _repeated,
        _came_from_nowhere,
        _receipt_differs,
        _two_values,
        _read_and_gone,
        _acked_by_a_replaced_master,
        _not_delivered,
        _queue_not_in_order,
        _key_not_in_order,
    )
    found: list[str] = []
    for check in checks:
        of_kind = list(check(history))
        found += of_kind[:5]
        if len(of_kind) > 5:
            found.append(f"… and {len(of_kind) - 5} more of this kind")
    return found


def _lost(history: History) -> Iterator[str]:
    """I1: acknowledged messages are in the log."""
    stored = {name for name, _ in history.log}
    for name, outcome in history.outcomes.items():
        if outcome is Outcome.ACKED and name not in stored and name.producer not in history.unsafe:
            yield f"I1: {name} was acknowledged at {history.receipts[name]} and is not in the log"


def _repeated(history: History) -> Iterator[str]:
    """I3: a retried message is in the log once."""
    for name, times in Counter(name for name, _ in history.log).items():
        if times > 1:
            positions = [position for each, position in history.log if each == name]
            yield f"I3: {name} is in the log {times} times, at {positions}"


def _came_from_nowhere(history: History) -> Iterator[str]:
    """Refused messages, and messages never sent, are not in the log."""
    for name, position in history.log:
        outcome = history.outcomes.get(name)
        if outcome is None:
            yield f"{name} at {position} was never sent"
        elif outcome is Outcome.REFUSED:
            yield f"{name} was refused, and is in the log at {position}"


def _receipt_differs(history: History) -> Iterator[str]:
    """A receipt names the position of its message."""
    stored = dict(history.log)
    for name, position in history.receipts.items():
        if name in stored and stored[name] != position:
            yield f"{name} has a receipt for {position} and is at {stored[name]}"


def _two_values(history: History) -> Iterator[str]:
    """I2: all readers of a position read the same message."""
    values: dict[Position, Name] = {}
    everything: Iterable[Iterable[tuple[Name, Position]]] = (
        history.log,
        *history.deliveries.values(),
        *history.reads.values(),
    )
    for seen in everything:
        for name, position in seen:
            if values.setdefault(position, name) != name:
                yield f"I2: at {position} one reader read {values[position]}, another {name}"


def _read_and_gone(history: History) -> Iterator[str]:
    """I6: what was read once is confirmed, so it is there at the end."""
    at_end = {position: name for name, position in history.log}
    for reader, seen in history.reads.items():
        for name, position in dict.fromkeys(seen):
            if position not in at_end:
                yield f"I6: reader {reader} read {name} at {position}, where nothing is at the end"


def _acked_by_a_replaced_master(history: History) -> Iterator[str]:
    """I5: a master that was replaced acknowledges nothing.

    Each master has the messages that all replicas had acknowledged before its epoch. So if a
    message has the offset of such a one, or a lower one, and was sent after the acknowledgement,
    then its master did not have the other message: a successor had it. A lease ends in time only by
    a clock that runs at the right rate.
    """
    at_end = {position: name for name, position in history.log}
    safe: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for name, (broker, queue, offset) in history.receipts.items():
        is_there = at_end.get((broker, queue, offset)) == name
        if is_there and name.producer not in history.unsafe and name in history.acked_at:
            safe[broker, queue].append((offset, history.acked_at[name]))
    earliest = {queue: _earliest_from(acked) for queue, acked in safe.items()}
    for name, position in history.receipts.items():
        sent = history.sent_at.get(name)
        if sent is None or at_end.get(position) == name or _overlaps(history, sent, history.acked_at[name]):
            continue
        offsets, times = earliest.get(position[:2], ([], []))
        index = bisect_left(offsets, position[2])
        if index < len(offsets) and times[index] < sent:
            yield f"I5: {name} was acknowledged at {position} by a master that had been replaced before it was sent"


def _earliest_from(acked: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """Return the offsets in order, and the first acknowledgement at or behind each."""
    acked.sort()
    times = list(accumulate((at for _, at in reversed(acked)), min))
    return [offset for offset, _ in acked], times[::-1]


def _overlaps(history: History, begin: float, end: float) -> bool:
    return any(begin <= until and since <= end for since, until in history.wrong_rates)


def _not_delivered(history: History) -> Iterator[str]:
    """I1: every group receives all messages in the log, and no others."""
    stored = {name for name, _ in history.log}
    for group in sorted(history.groups):
        seen = history.seen_by(group)
        for name in sorted(stored - seen.keys()):
            yield f"I1: {name} is in the log, and group {group} never saw it"
        for name in sorted(seen.keys() - stored):
            yield f"I2: group {group} saw {name}, which is not in the log"


def _queue_not_in_order(history: History) -> Iterator[str]:
    """One consumer reads a queue forward without gaps."""
    for (group, life), seen in history.deliveries.items():
        last: dict[tuple[str, int], int] = {}
        for name, (broker, queue, offset) in seen:
            before = last.get((broker, queue))
            if before is not None and offset != before + 1:
                yield (
                    f"I4: consumer {life} of {group} read {name} at offset {offset} of {broker}/{queue} "
                    f"behind offset {before}"
                )
            last[broker, queue] = offset


def _key_not_in_order(history: History) -> Iterator[str]:
    """I4: the messages of one producer and key are in one queue, in order."""
    last: dict[tuple[int, str], tuple[int, tuple[str, int]]] = {}
    for name, (broker, queue, _) in sorted(history.log, key=lambda entry: entry[1]):
        if not name.key:
            continue
        number, position = last.get((name.producer, name.key), (-1, (broker, queue)))
        if position != (broker, queue):
            yield f"I4: key {name.key} of producer {name.producer} is in {position} and in {(broker, queue)}"
        elif name.number < number:
            yield f"I4: {name} comes after number {number} of the same key"
        last[name.producer, name.key] = (name.number, (broker, queue))
