"""PULL, OFFSET_AT_TIME and FIND: reads, of which a pull may wait for new messages.

Entry points: ``ReadRequests`` takes PULL, OFFSET_AT_TIME and FIND, ``LongPolls`` answers pulls when
there are messages, ``scan`` searches a queue for the messages that a filter accepts, ``visible_to``
drops what a group has already consumed.

Invariants: no read passes the confirm offset (I6), except that a group reads the received messages
of a topic with that visibility. A caller that does not read its answers gets no
more of them. A scan yields after a few milliseconds, so it never blocks other callers.

May import: ``groups``, ``topics``, ``dead_letters``, ``runtime``, ``limits``, and
``litemq.filters``.
"""
