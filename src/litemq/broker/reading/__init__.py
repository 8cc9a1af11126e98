"""PULL and its long polls: reads of a queue that may wait for new messages.

Entry points: ``Pulling`` answers pulls, ``scan`` searches a queue for the messages that a filter accepts,
``visible_to`` drops what a group has already consumed.

Invariants: no read passes the confirm offset (I6). A caller that does not read its answers gets no more of
them. A scan yields after a few milliseconds, so it never blocks other callers.

May import: ``groups``, ``topics``, ``dead_letters``, ``runtime``, ``limits``, and ``litemq.filters``.
"""
