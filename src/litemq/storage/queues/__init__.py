"""Consume queues: for each queue, where its messages are in the log. A projection of the log.

Entry points: ``Queues`` (new entries in memory, written behind), ``QueueFiles`` (entries on disk),
``QueueReader`` (reads messages through their queue).

Invariants: an entry leads only to a record that names the same queue and offset and has valid CRCs;
anything else never leaves the store (I12). Files are truncated to the checkpoint after a crash.

May import: ``state``, ``log``, ``files``.
"""
