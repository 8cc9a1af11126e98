"""What figures are compared with: the bare machine, another message queue, a plain loop over records.

Entry points: ``bare_sync_p99`` and ``plain_loop_ns`` (the machine in the same minute), ``nats`` (NATS JetStream, if
it is installed), ``StructLoopSource`` (the log read without columns).

Invariants: a baseline does not run the code that its figure judges.

May import: ``bench.clusters`` and, for Spark's data source, ``litemq.spark`` and ``litemq.format``.
"""
