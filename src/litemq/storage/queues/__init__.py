"""Consume queues: the log offset of each message, by queue. A projection of the log.

Entry points: ``Queues`` (new entries in memory, written to files later), ``QueueFiles`` (entries
on disk), ``QueueReader`` (reads messages by queue offset).

Invariants: a record leaves the store only if it names the same queue and offset as its entry, and
has valid CRCs (I12). After a crash, files count only up to the checkpoint.

May import: ``state``, ``log``, ``files``.
"""
