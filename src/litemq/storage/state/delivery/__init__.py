"""Delivery to groups: offsets, leases, failed attempts, dead letters, and group settings.

Entry classes: ``Progress`` (the offset, the done ranges and the leases of each group and queue),
``Tries`` (failed attempts that wait for their retry), ``DeadLetters`` (dead letters that have not
been redriven), ``GroupSettings`` (paused groups and the latest offset resets). ``Leases`` holds the
leases of one queue.

Invariants: each class is a part of the state machine and a function of the log alone. An expired
lease leaves no record: readers compare its deadline with their clock.

May import: ``state.part``, ``state.topics``; ``format``, ``proto``. Never the machine or another
part.
"""
