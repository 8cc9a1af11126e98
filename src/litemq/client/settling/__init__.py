"""Settling: ack, nack, reject, retry. Pure policies, and the request that carries their outcome.

Entry points: ``AckPolicy`` and ``decide_outcome`` (what the end of a handler means),
``RetryPolicy`` (when to retry), ``Settlements`` (what one request holds), ``Settler`` (sends one
request per tick, retried).

Invariants: an unfinished or cancelled message is never acknowledged. A settlement whose answer was
lost is sent again until the broker has answered.

May import: ``config``, ``backoff``, ``times``.
"""
