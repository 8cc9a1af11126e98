"""Workloads of the suites: senders and consumers, groups, timers, jobs, transactions, large stores.

Entry points: ``measure_send``, ``measure_consume`` and ``measure_latency`` (``load.py``), which
also serve ``litemq bench send``, ``consume`` and ``latency``; one class or function per workload
elsewhere.

Invariants: load on a cluster goes through the public client. A workload raises if a message is
missing, duplicated or early; it never returns a figure for a wrong result.

May import: ``bench.clusters``, the client, storage and Spark. It imports no suite and no baseline.
"""
