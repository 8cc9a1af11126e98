"""Who is alive: heard within a lease, as far as anybody listened."""

from litemq.nameserver.liveness import Liveness

LEASE, LOOK = 5_000, 500


def test_silence_for_a_lease_ends_a_life_and_registering_begins_another() -> None:
    liveness = Liveness(LEASE, LOOK, 0)
    assert not liveness.heard("a", 0)
    liveness.registered("a", 0)
    liveness.registered("b", 10)
    for now in range(500, 4_999, 500):
        assert liveness.fell_silent(now) == []
        assert liveness.heard("b", now)
    assert liveness.fell_silent(4_999) == []
    assert liveness.fell_silent(5_000) == ["a"]
    assert liveness.fell_silent(5_001) == []
    assert (liveness.is_alive("a"), liveness.is_alive("b"), liveness.alive) == (False, True, 1)
    assert liveness.silent() == ["a"]
    assert (liveness.heard_at("a"), liveness.heard_at("b")) == (0, 4_500)
    assert not liveness.heard("a", 5_100)
    liveness.registered("a", 5_200)
    assert liveness.is_alive("a")
    assert liveness.silent() == []


def test_those_who_are_forgotten_are_neither() -> None:
    liveness = Liveness(LEASE, LOOK, 0)
    liveness.registered("a", 0)
    liveness.was_silent("b", 0)
    liveness.forgotten("a")
    liveness.forgotten("b")
    liveness.forgotten("c")
    assert liveness.alive == 0
    assert liveness.silent() == []
    assert liveness.fell_silent(3_000) == []


def test_the_time_in_which_nobody_listened_does_not_count() -> None:
    liveness = Liveness(LEASE, LOOK, 0)
    liveness.registered("a", 0)
    liveness.registered("b", 0)
    assert liveness.fell_silent(500) == []
    assert liveness.fell_silent(60_000) == []  # the process stood still for a minute
    assert liveness.heard("b", 60_100)
    for now in range(60_500, 65_000, 500):
        assert liveness.fell_silent(now) == []
    assert liveness.fell_silent(65_000) == ["a"]
    assert liveness.fell_silent(65_100) == ["b"]


def test_a_look_that_is_a_little_late_is_no_excuse() -> None:
    liveness = Liveness(LEASE, LOOK, 0)
    liveness.registered("a", 0)
    for now in (2_900, 5_800):
        fallen = liveness.fell_silent(now)
    assert fallen == ["a"]
