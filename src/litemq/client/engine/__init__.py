"""The engine interface: the protocols that an engine implements, and the values they exchange.

Entry point: ``Engine``, a protocol that ``litemq://`` and ``memory://`` implement, with one file
for each capability (timers, jobs, transactions, dead letters, archives).

Invariants: nothing here does I/O. Values are immutable and know neither sockets nor protobuf, so
that another engine needs neither.

May import: ``messages``, ``settling``.
"""
