"""Suites of ``litemq bench suite NAME``: one module per suite.

Entry point: ``figures(scale)`` of each module, which prepares the data and returns the suite's
figures with their goals. ``bench.suite`` imports a module when its suite is run; ``format`` needs
no Spark, ``spark`` does.

Invariants: a figure measures once per call, and a run at a small ``scale`` takes seconds. Data and
clusters are removed when the process ends.

May import: ``bench.workloads``, ``bench.baselines``, ``bench.suite``, ``bench.clusters`` and the
packages that they measure.
"""
