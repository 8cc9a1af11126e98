"""The lease of a master."""

from litemq.clock import FakeClock
from litemq.server.replica.lease import MasterLease


def test_a_lease_counts_from_before_its_renewal_was_sent() -> None:
    clock = FakeClock()
    lease = MasterLease(clock)
    assert not lease.is_valid()
    sent_at = clock.elapsed_ns()
    clock.advance(3)  # until the answer
    lease.renewed(sent_at, 5_000)
    assert lease.is_valid()
    clock.advance(1.4)
    assert lease.is_valid()
    clock.advance(0.1)  # a tenth before its end
    assert not lease.is_valid()


def test_a_late_answer_does_not_shorten_a_lease() -> None:
    clock = FakeClock()
    lease = MasterLease(clock)
    early = clock.elapsed_ns()
    clock.advance(4)
    lease.renewed(clock.elapsed_ns(), 5_000)
    lease.renewed(early, 5_000)
    clock.advance(4)
    assert lease.is_valid()


def test_a_lease_that_was_ended_is_over() -> None:
    clock = FakeClock()
    lease = MasterLease(clock)
    lease.renewed(clock.elapsed_ns(), 5_000)
    lease.end()
    assert not lease.is_valid()
    lease.renewed(clock.elapsed_ns(), 5_000)  # an answer on its way
    lease.resume()
    assert not lease.is_valid()


def test_a_lease_is_not_valid_while_the_master_hands_over() -> None:
    clock = FakeClock()
    lease = MasterLease(clock)
    lease.renewed(clock.elapsed_ns(), 5_000)
    lease.suspend()
    lease.renewed(clock.elapsed_ns(), 5_000)
    assert not lease.is_valid()
    lease.resume()
    assert lease.is_valid()
