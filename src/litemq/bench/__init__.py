"""Benchmarks behind ``litemq bench``: figures, their measurement and their goals.

Entry points: ``load_suite`` and ``measure`` (``suite.py``), ``scratch_folder``, and the
measurements of ``workloads.load`` for a running cluster.

``suites`` has one module per suite. They put load from ``workloads`` on the clusters of
``clusters.py`` and ``replica_group.py``, and compare with ``baselines``.

May import: every package below ``cli``. Only ``cli`` imports this package.
"""
