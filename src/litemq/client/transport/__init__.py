"""Channels: what carries requests to one server, and a connection that is made again when it ends.

Entry points: ``Channel`` is the interface (TCP, or a call in this process); ``Link`` reconnects.

Invariants: a request either gets its answer or raises; when the connection ends, every pending request
fails with ``ConnectionLostError``. One connection carries many requests at a time.

May import: ``config``, ``backoff``, and ``litemq.net``.
"""
