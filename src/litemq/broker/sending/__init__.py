"""SEND: the requests of one event-loop tick become one append per topic.

Entry points: ``TickBatcher`` gathers a tick and appends it. ``Deduplication`` is pure: it finds
new, known and repeated requests. ``SendAnswers`` answers them. ``SendDestinations`` finds the queue
from the header.

Invariants: a retried send is appended once and gets its first receipt (I3). The broker answers when
the durability level of the record holds, never before. An invalid request is refused alone; the
others of its tick are appended.

May import: ``admission``, ``runtime``, ``limits``.
"""
