"""Messages to send and received messages, with their options and serializers.

Entry points: ``Message`` (received), ``OutgoingMessage`` and ``SendReceipt`` (sent),
``SendOptions``, ``Serializer``, ``DeliveryOptions`` (delay, TTL, priority).

Invariants: a message settles once; settling again raises ``AlreadySettledError``. A body is decoded
only when ``value`` is read.

May import: ``settling``, and below.
"""
