"""Replay of the log into its projections, and snapshots of the state.

Entry points: ``replay_into_state``, ``replay_into_timers``, ``replay_into_queues``,
``SnapshotReader``.

Invariants (I11): the state is the rows of the latest complete snapshot plus the records from its
``as_of`` on; every replay gives the same state. A snapshot is valid only if its end record has the
right count and digest.

May import: ``timers``, ``queues``, ``batches``, ``state``, ``log``.
"""
