"""Handlers: functions that process messages, tasks, periodic tasks, and the workers that run them.

Entry points: ``AsyncApp`` has the decorators and ``run``, ``Worker`` runs all handlers of a client,
``Runner`` runs one of them. ``HandlerBreaker`` is pure.

Invariants: a message is acknowledged only after its handler returned; a cancelled handler never
acknowledges. On shutdown a worker stops fetching, drains, and returns the rest.

May import: ``consuming``, ``jobs``, ``extensions``, ``engine``, ``messages``, ``settling``.
"""
