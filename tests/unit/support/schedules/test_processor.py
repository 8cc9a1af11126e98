"""A schedule on one processor."""

import os
import sys
import threading

import pytest

from support.schedules.processor import on_one_processor


@pytest.mark.skipif(sys.platform != "linux", reason="other systems choose the processors themselves")
def test_new_threads_stay_on_the_processor_and_later_ones_do_not() -> None:
    before = os.sched_getaffinity(0)
    found: list[set[int]] = []

    def look() -> None:
        found.append(os.sched_getaffinity(0))

    with on_one_processor():
        inside = os.sched_getaffinity(0)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    look()
    assert len(inside) == 1
    assert found == [inside, before]
