"""Servers and workers as processes: in the foreground, as children of ``litemq up``, in a worker pool.

Entry points: ``serve`` (one server in the foreground), ``supervise`` (children of ``up``), ``WorkerPool``.

Invariants: a child notices that its parent is gone and stops, also after SIGKILL. The first signal stops in
good order, the second at once.

May import: ``cli.configuration``, ``cli.rendering``.
"""
