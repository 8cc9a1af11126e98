"""Leases that a client holds, and ``mq.receive``.

Entry points: ``Leases`` requests, renews and returns leases, ``Lease`` holds the messages of one
answer, ``Receiver`` serves ``receive``.

Invariants: a lease is renewed while its messages are buffered or processed, and never after they
are settled. Messages granted to a cancelled caller go to the next caller, or back to the broker.

May import: ``engine``, ``messages``, ``settling``.
"""
