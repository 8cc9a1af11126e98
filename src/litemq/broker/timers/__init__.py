"""Delayed messages: fired when they are due, cancelled, rescheduled, listed.

Entry points: ``TimerFiring`` appends the messages that are due, ``TimerRequests`` answers clients,
``TimerChanges`` decides cancels and moves while no other writer runs.

Invariants (I8): a timer never fires early, fires once, and a cancelled timer never fires. The
record that delivers a message also ends its timer.

May import: ``runtime``, ``limits``.
"""
