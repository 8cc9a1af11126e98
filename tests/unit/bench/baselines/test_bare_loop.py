"""The bare loop passes every message on, and its costs are measured."""

from litemq.bench.baselines.bare_loop import measure_bare_loop


def test_every_message_arrives_and_is_measured() -> None:
    load = measure_bare_loop(rate=500, size=100, seconds=0.3)
    assert load.cpu_us > 0
    assert 0 < load.p50 <= load.p99
