"""Decorated functions at work: subscriptions, tasks, periodic tasks, workers.

Entry points: ``AsyncApp`` has the decorators and ``run``, ``Worker`` runs all handlers of a client, ``Runner``
one of them. ``HandlerBreaker`` is pure.

Invariants: a message is acknowledged only after its handler returned; a cancelled handler never
acknowledges. On shutdown a worker stops fetching, drains, and releases the rest.

May import: ``consuming``, ``jobs``, ``extensions``, ``engine``, ``messages``, ``settling``.
"""
