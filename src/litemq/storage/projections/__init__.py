"""From the log to everything that is derived from it: replay and snapshots.

Entry points: ``replay_into_state``, ``replay_into_timers``, ``replay_into_queues``, ``SnapshotReader``.

Invariants (I11): state is the rows of the latest complete snapshot plus the records from its ``as_of`` on,
identically, however often it is replayed. A snapshot counts only if its end record has the right count and
digest.

May import: ``timers``, ``queues``, ``batches``, ``state``, ``log``.
"""
