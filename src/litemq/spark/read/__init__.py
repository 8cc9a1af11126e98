"""The source ``litemq``: topics of running brokers as tables and streams.

Entry points: ``StreamReader`` (streaming), ``read_rows`` (a task), ``parse_read_options``. ``planning.py`` is
pure: what to read next.

Invariants: the offsets of a stream name the identity of each topic, so a topic that was deleted and created
again is noticed. A planned span is read completely or the task fails.

May import: ``fetch``, ``brokers``, ``options``, ``schema``.
"""
