"""Leases that a client holds, and ``mq.receive``.

Entry points: ``Leases`` requests, renews and returns leases, ``Lease`` is the messages of one answer,
``Receiver`` serves ``receive``.

Invariants: a lease is renewed while its messages wait or are processed, and never after they are settled.
Messages granted to a cancelled caller go to the next one or back to the broker.

May import: ``engine``, ``messages``, ``settling``.
"""
