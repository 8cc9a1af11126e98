"""Transactions: half messages, their decision, check-back, and the sinks of Spark.

Entry points: ``Transactions`` wires the package. ``HalfBatcher`` takes halves, ``Decisions``
commits and rolls back, ``CheckBack`` asks producers for a missing decision, ``HalfPublisher``
publishes decided halves.

Invariants (I7): undecided and rolled-back halves are invisible. Each half ends once. An undecided
transaction becomes dead letters with the history of its checks.

May import: ``admission``, ``dead_letters``, ``runtime``, ``limits``.
"""
