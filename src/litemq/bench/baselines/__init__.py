"""Baselines for figures: the bare machine, another message queue, a plain loop over records.

Entry points: ``bare_sync_p99`` and ``plain_loop_ns`` (the machine at the time of the run), ``nats``
(NATS JetStream, if installed), ``StructLoopSource`` (the log read without columns).

Invariants: a baseline does not run the code that its figure measures.

May import: ``bench.clusters`` and, for Spark's data source, ``litemq.spark`` and ``litemq.format``.
"""
