"""Processes of servers and workers: in the foreground, under ``litemq up``, in a worker pool.

Entry points: ``serve`` (one server in the foreground), ``supervise`` (children of ``up``),
``WorkerPool``.

Invariants: a child stops when its parent is gone, even after SIGKILL. The first signal shuts down
gracefully, the second exits immediately.

May import: ``cli.configuration``, ``cli.rendering``.
"""
