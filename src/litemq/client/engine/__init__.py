"""The engine interface: what an engine does, and the plain values that cross it.

Entry point: ``Backend``, a protocol that ``litemq://`` and ``memory://`` implement, with one file for each
capability (timers, jobs, transactions, dead letters, archives).

Invariants: nothing here does I/O. Values are immutable and know neither sockets nor protobuf, so that
another engine needs neither.

May import: ``messages``, ``settling``.
"""
