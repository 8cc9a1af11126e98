"""Consumer groups in queue mode: members, sessions, assignment, committed offsets, lag.

Entry points: ``GroupCoordinator`` knows members and heartbeats, ``MemberRequests`` and
``GroupAdmin`` answer members and operators, ``RecentConsumers`` remembers who asked for messages.
``Membership`` and ``assign`` are pure: who is a member, and who owns which queue.

Invariants: a queue has one owner at a time. Each change of owner begins a new generation, and a
commit of an older generation is refused. Offsets belong to the store, so they outlive members and
brokers.

May import: ``topics``, ``runtime``, ``limits``.
"""
