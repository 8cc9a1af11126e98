"""Data source ``litemq-log``: the files of a log as a table, read without a broker.

Entry points: ``LogSource``; ``planning.py`` chooses byte ranges, ``splits.py`` cuts them at record
boundaries.

Invariants: a task reads only up to the checkpoint's confirmed offset. Record boundaries come from
the consume queues, so record bytes inside a message body are never mistaken for a record.

May import: ``options``, ``schema``, ``spark_types``, and ``litemq.storage``.
"""
