"""Lease mode: LEASE, SETTLE and EXTEND. Messages are leased to a group, settled, retried.

Entry points: ``LeaseRequests`` (the wire), ``Lessor`` (one decision per group and event-loop tick).
``QueueAvailability`` and ``QueueRotation`` are pure state machines: the available messages, and the
next queue.

Invariants: everything that a tick decides for a group is one control record. A grant is answered at
once, because losing one only allows a repeat; a settlement is answered after its record is
confirmed. The retry count of a message only rises (I10).

May import: ``groups``, ``dead_letters``, ``runtime``, ``limits``, and ``litemq.filters``.
"""
