"""Timers: those due soon in memory, all others in bucket files by day and by minute.

Entry classes: ``TimerStore`` (all timers of a store), ``NearTimers`` (those in memory),
``BucketFiles`` (the files), ``PendingEntries`` (entries that are not in the files yet).

Invariants: the bucket files are a projection of the log. Entries are appended to them only once
their records are confirmed. A timer fires at most once.
"""
