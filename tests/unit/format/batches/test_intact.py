"""Counting intact records: content and position are checked."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from litemq.format.batches.check import check_batch, count_intact
from litemq.format.batches.stamp import stamp_batch
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.record_encode import encode_record
from litemq.types import Record

Longs = npt.NDArray[np.int64]


def _stored(count: int) -> tuple[bytearray, Longs, Longs]:
    records = [
        Record("orders", bytes(n * 7 % 40), f"m-{n}", tags=tuple(f"t{m}" for m in range(n % 3))) for n in range(count)
    ]
    data = bytearray(b"".join(map(encode_record, records)))
    columns = check_batch(data)
    offsets = columns.starts + 5000
    stamp_batch(
        columns,
        commitlog_offsets=offsets,
        queue_offsets=np.arange(70, 70 + count),
        topic_ids=16,
        queue_ids=3,
        store_timestamp=1_700_000_000_000,
        epoch=2,
    )
    return data, columns.starts, offsets


def test_stored_records_are_intact() -> None:
    data, starts, offsets = _stored(9)
    assert count_intact(RecordColumns(data, starts), offsets, 70, 16, 3) == 9
    for wrong in ((71, 16, 3), (70, 17, 3), (70, 16, 4)):
        assert count_intact(RecordColumns(data, starts), offsets, *wrong) == 0
    moved = offsets.copy()
    moved[4] += 8
    assert count_intact(RecordColumns(data, starts), moved, 70, 16, 3) == 4
    assert (
        count_intact(RecordColumns(data, starts[:5]), offsets[:5], 70, 16, 3) == 4
    )  # the last does not end where the buffer does


@given(st.data())
def test_every_flipped_bit_is_detected(data: st.DataObject) -> None:
    buffer, starts, offsets = _stored(5)
    position = data.draw(st.integers(0, len(buffer) - 1))
    buffer[position] ^= 1 << data.draw(st.integers(0, 7))
    expected = int(np.searchsorted(starts, position, side="right")) - 1
    assert count_intact(RecordColumns(buffer, starts), offsets, 70, 16, 3) == expected
