"""Where two logs part, compared with the logs themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.replication.common_end import EpochStart, common_end

Log = list[tuple[int, int]]  # an epoch, and a number that no other record has


def _epochs(log: Log) -> list[EpochStart]:
    found: list[EpochStart] = []
    for at, (epoch, _) in enumerate(log):
        if not found or epoch > found[-1].number:
            found.append(EpochStart(epoch, at))
    return found


def _same(one: Log, other: Log) -> int:
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4), st.integers(0, 9)), max_size=12))
def test_it_is_where_the_logs_differ(steps: list[tuple[int, int, int, int]]) -> None:
    """Each epoch has one writer: it follows another log up to a point, and then writes its own."""
    logs: list[Log] = [[], [], []]
    for epoch, (writer, source, written, kept) in enumerate(steps, 1):
        if source != writer:
            logs[writer] = logs[source][: max(len(logs[source]) - kept, 0)]
        logs[writer] = logs[writer] + [(epoch, epoch * 100 + number) for number in range(written)]
    for one in logs:
        for other in logs:
            assert common_end(_epochs(one), len(one), _epochs(other), len(other)) == _same(one, other)


def test_logs_without_a_common_epoch_have_nothing_in_common() -> None:
    assert common_end([EpochStart(1, 0)], 10, [EpochStart(2, 0)], 10) == 0
    assert common_end([], 0, [EpochStart(2, 0)], 10) == 0
