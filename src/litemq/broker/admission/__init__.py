"""Decisions that the broker takes before it appends a send, and before it answers one.

Entry points: ``FairQueue`` (which sends go next while the disk is behind), ``Quotas`` (rates per
client), ``Backlog`` (how far a queue may run ahead of its slowest group), ``check_due`` (how far
ahead a message may be delayed), ``read_claims`` (the claims of records: producer, sequence,
durability, due time) and ``when_held`` (when records are as durable as their level says).

Invariants: a runaway producer uses bounded memory and barely slows other clients. A refused send
changes no state.

May import: ``dead_letters``, ``runtime``, ``limits``.
"""
