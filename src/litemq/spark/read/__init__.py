"""Data source ``litemq``: topics of running brokers as tables and streams.

Entry points: ``BatchReader``, ``StreamReader``, ``read_rows`` (a task), ``parse_read_options``.
``planning.py`` decides what to read next and does no I/O.

Invariants: the offsets of a stream contain the identity of each topic, so a recreated topic is
detected. A planned span is read completely or the task fails.

May import: ``fetch``, ``brokers``, ``options``, ``schema``.
"""
