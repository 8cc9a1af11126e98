"""``Tries``: a copy for a snapshot, which is made under the writer's lock."""

from __future__ import annotations

import tracemalloc

from litemq.proto.control_pb2 import Control, LeaseTick, TryFailed
from litemq.storage.state.delivery.tries import Tries

COUNT = 50_000


def test_a_copy_shares_what_has_not_changed() -> None:
    tries = Tries()
    for begin in range(0, COUNT, 1000):
        failed = [
            TryFailed(topic_id=9, queue_offset=at, predecessor=at * 200, due=1) for at in range(begin, begin + 1000)
        ]
        tries.apply(Control(lease_tick=LeaseTick(group="billing", failed=failed)))
    tracemalloc.start()
    try:
        copied = tries.copy()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 100 * COUNT  # one table; a mapping for each attempt would take more than twice that
    assert sum(1 for _ in copied) == COUNT
