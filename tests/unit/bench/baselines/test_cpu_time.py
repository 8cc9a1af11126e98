"""The CPU time of a process, with all its threads."""

import os
import time

from litemq.bench.baselines.cpu_time import cpu_seconds


def test_the_time_of_this_process_is_counted() -> None:
    before, used = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - used < 0.05:
        pass
    assert cpu_seconds(os.getpid()) - before >= 0.04
