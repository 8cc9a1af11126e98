"""``PendingEntries`` against a plain list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from litemq.storage.timers.entries import MINUTE_MS
from litemq.storage.timers.pending_entries import PendingEntries, Row

DUES = st.integers(0, 5 * MINUTE_MS)
BATCHES = st.lists(st.lists(DUES, max_size=5), max_size=8)


@given(BATCHES, st.integers(0, 40), st.booleans())
def test_entries_match_a_list(batches: list[list[int]], below: int, in_vain: bool) -> None:
    rows = PendingEntries()
    model: list[Row] = []
    for number, dues in enumerate(batches):
        new = [(due, 0, len(model) + n, n % 2) for n, due in enumerate(dues)]
        model += new
        if number % 2:
            rows.add_many(np.array(new, np.int64).reshape(-1, 4))
        else:
            for row in new:
                rows.add(row)
    assert rows.between(1, 3).tolist() == [list(row) for row in model if 1 <= row[0] // MINUTE_MS < 3]
    assert rows.first_minute(2) == min((row[0] // MINUTE_MS for row in model if row[0] >= 2 * MINUTE_MS), default=None)
    taken = rows.take_below(below)
    assert taken.tolist() == [list(row) for row in model[:below]]
    rows.add((7, 7, 100, 7))
    if in_vain:
        rows.put_back(taken)
    left = model if in_vain else model[below:]
    assert rows.all().tolist() == [*map(list, left), [7, 7, 100, 7]]
