"""Broker liveness: heartbeats, leases, and time in which the process was suspended."""

from litemq.nameserver.liveness import Liveness

LEASE, SWEEP_INTERVAL = 5_000, 500


def test_a_broker_expires_after_a_lease_and_can_register_again() -> None:
    liveness = Liveness(LEASE, SWEEP_INTERVAL, 0)
    assert not liveness.record_heartbeat("a", 0)
    liveness.register("a", 0)
    liveness.register("b", 10)
    for now in range(500, 4_999, 500):
        assert liveness.expire(now) == []
        assert liveness.record_heartbeat("b", now)
    assert liveness.expire(4_999) == []
    assert liveness.expire(5_000) == ["a"]
    assert liveness.expire(5_001) == []
    assert (liveness.is_alive("a"), liveness.is_alive("b"), liveness.alive) == (False, True, 1)
    assert liveness.silent() == ["a"]
    assert (liveness.heard_at("a"), liveness.heard_at("b")) == (0, 4_500)
    assert not liveness.record_heartbeat("a", 5_100)
    liveness.register("a", 5_200)
    assert liveness.is_alive("a")
    assert liveness.silent() == []


def test_a_removed_broker_is_neither_alive_nor_silent() -> None:
    liveness = Liveness(LEASE, SWEEP_INTERVAL, 0)
    liveness.register("a", 0)
    liveness.restore_silent("b", 0)
    liveness.remove("a")
    liveness.remove("b")
    liveness.remove("c")
    assert liveness.alive == 0
    assert liveness.silent() == []
    assert liveness.expire(3_000) == []


def test_time_in_which_the_process_was_suspended_does_not_count() -> None:
    liveness = Liveness(LEASE, SWEEP_INTERVAL, 0)
    liveness.register("a", 0)
    liveness.register("b", 0)
    assert liveness.expire(500) == []
    assert liveness.expire(60_000) == []  # the process paused for a minute
    assert liveness.record_heartbeat("b", 60_100)
    for now in range(60_500, 65_000, 500):
        assert liveness.expire(now) == []
    assert liveness.expire(65_000) == ["a"]
    assert liveness.expire(65_100) == ["b"]


def test_a_sweep_that_is_a_little_late_does_not_extend_leases() -> None:
    liveness = Liveness(LEASE, SWEEP_INTERVAL, 0)
    liveness.register("a", 0)
    for now in (2_900, 5_800):
        expired = liveness.expire(now)
    assert expired == ["a"]
