"""Transactions: their halves, the progress of copying them, and their outcomes.

Entry classes: ``Halves`` (the open transactions), ``Outcomes`` (of the latest producers'
transactions), ``Sinks`` (the last decided batch of each query). ``Transaction`` and ``HalfRun``
hold the halves of one transaction in runs; ``half_rows`` converts them to rows and back.

Invariants: each class is a function of the log alone. Halves are copied in the order of their
decisions, each exactly once: the copy ends its half. A transaction that is copied or rolled back
leaves only its outcome.

May import: ``state.part``, ``state.topics``; ``format``, ``proto``. Never the machine or another
part.
"""
