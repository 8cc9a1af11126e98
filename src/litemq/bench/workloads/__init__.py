"""The load that suites measure: senders and consumers, groups, timers, jobs, transactions, large stores.

Entry points: ``measure_send``, ``measure_consume`` and ``measure_latency`` (``load.py``), which also serve
``litemq bench send``, ``consume`` and ``latency``; one class or function per workload elsewhere.

Invariants: load on a cluster goes through the public client. It raises if a message is missing, duplicated or early.
A wrong result is an error, never a figure.

May import: ``bench.clusters``, the client, storage and Spark. It imports no suite and no baseline.
"""
