"""Channels that carry requests to one server, and a connection that reconnects.

Entry points: ``Channel`` is the interface (TCP, or a call in this process); ``BrokerConnection``
reconnects.

Invariants: a request either gets its answer or raises; when the connection ends, every pending
request fails with ``ConnectionLostError``. One connection carries many requests at a time.

May import: ``config``, ``backoff``, and ``litemq.net``.
"""
