"""The checker of archives notices what it is there for."""

import pyarrow as pa
import pytest

from support.spark_rows import KEY, Queue, row_problems

QUEUE = Queue("a", "orders", 0)
ENTRIES = {QUEUE: range(5, 8), Queue("a", "orders", 1): range(0)}


def table(*keys: tuple[str, str, int, int]) -> pa.Table:
    columns = list(zip(*keys, strict=True)) or [(), (), (), ()]
    types = (pa.string(), pa.string(), pa.int32(), pa.int64())
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(KEY, columns, types, strict=True)})


def test_rows_that_are_the_entries() -> None:
    assert row_problems(table((*QUEUE, 6), (*QUEUE, 5), (*QUEUE, 7)), ENTRIES) == []


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([(*QUEUE, 5), (*QUEUE, 7)], "1 missing, [6]"),
        ([], "3 missing"),
        ([(*QUEUE, 5), (*QUEUE, 6), (*QUEUE, 6), (*QUEUE, 7)], "1 there more than once, [6]"),
        ([(*QUEUE, 4), (*QUEUE, 5), (*QUEUE, 6), (*QUEUE, 7)], "1 unknown, [4]"),
        ([(*QUEUE, 5), (*QUEUE, 6), (*QUEUE, 7), ("b", "orders", 0, 5)], "queues that are not there"),
        ([(*QUEUE, 5), (*QUEUE, 6), (*QUEUE, 7), ("a", "orders", 1, 0)], "1 unknown, [0]"),
    ],
)
def test_rows_that_are_not(rows: list[tuple[str, str, int, int]], word: str) -> None:
    (problem,) = row_problems(table(*rows), ENTRIES)
    assert word in problem
