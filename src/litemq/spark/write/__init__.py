"""The sink ``litemq``: rows become messages, each exactly once.

Entry points: ``BatchSink`` and ``StreamSink`` (called by Spark), ``write_rows`` (one attempt of one task),
``commit`` (the driver's decision).

Invariants: tasks write halves, which nobody sees; one idempotent commit per broker names the winning
attempts, and the others are rolled back. A batch that is repeated after a crash is not written twice.

May import: ``fetch``, ``brokers``, ``options``, ``schema``.
"""
