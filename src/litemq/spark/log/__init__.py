"""The source ``litemq-log``: the files of a log as a table, read without a broker.

Entry points: ``LogSource``; ``planning.py`` chooses byte ranges, ``splits.py`` cuts them where records begin.

Invariants: a task reads only up to the checkpoint's confirmed offset. Ranges are cut at record boundaries
that the consume queues name, so a record inside a message body is never taken for one of the log.

May import: ``options``, ``schema``, ``spark_types``, and ``litemq.storage``.
"""
