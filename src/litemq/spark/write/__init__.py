"""Sink ``litemq``: writes rows as messages, each exactly once.

Entry points: ``BatchSink`` and ``StreamSink`` (called by Spark), ``write_rows`` (one attempt of one
task), ``commit`` (the driver's decision).

Invariants: tasks write halves, which are not delivered; one idempotent commit per broker names the
winning attempts, and the others are rolled back. A batch repeated after a crash is not written
twice.

May import: ``fetch``, ``brokers``, ``options``, ``schema``.
"""
