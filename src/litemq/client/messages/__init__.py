"""Messages as programs see them, and how values become bodies.

Entry points: ``Message`` (received), ``OutgoingMessage`` and ``SendReceipt`` (sent), ``SendOptions``,
``Serializer``, ``Terms`` (delay, TTL, priority).

Invariants: a message settles once; settling again raises ``AlreadySettledError``. A body is decoded only
when ``value`` is read.

May import: ``settling``, and below.
"""
