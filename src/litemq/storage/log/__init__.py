"""The commit log: segments, group commit, epochs, checkpoint, recovery.

Entry points: ``LogDirectory`` (lock, recover, begin an epoch), ``CommitLog`` (append), ``Flusher``
(group commit), ``read_log`` (windows of whole records), ``read_checked`` (one record by its log
offset), ``DamageLog`` (damaged records found since the store was opened), ``check_repair`` and
``write_repair`` (damaged bytes replaced by those of another replica), ``LogClock`` (time that never
runs back).

Invariants: one writer. A failed fsync is never retried: the log stops. A bad record below the
checkpoint's flushed offset is corruption and is never truncated; above it, the first bad record
ends the log (I12). Epochs only rise.

May import: ``files``, ``config``, and ``litemq.format``.
"""
