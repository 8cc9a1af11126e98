"""Transactions: half messages, their decision, check-back, and the sinks of Spark.

Entry points: ``Transactions`` wires the package. ``HalfBatcher`` takes halves, ``Decisions`` commits and rolls
back, ``CheckBack`` asks producers for a missing decision, ``HalfPublisher`` publishes decided halves.

Invariants (I7): undecided and rolled-back halves are invisible. Each half ends once. A transaction that
nobody decides becomes dead letters with its history.

May import: ``admission``, ``dead_letters``, ``runtime``, ``limits``.
"""
