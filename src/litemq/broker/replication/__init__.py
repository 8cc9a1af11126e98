"""Replication: a master ships its log to its followers, and learns what the group has confirmed.

Entry points: ``Shipping`` answers the followers of one epoch's master, ``LogSession`` is a
follower's side of the connection, ``CopySession`` that of a replica which cannot follow yet.
``InSyncTracker`` decides what is confirmed and which replicas are in sync.

Invariants: nothing is confirmed that a member of the in-sync set has not flushed in this session,
or before the record that begins the epoch (I11). A follower cuts its log only above its confirm
offset. A chunk never has records of two epochs.

May import: ``runtime``, ``limits``, and ``litemq.storage``.
"""
