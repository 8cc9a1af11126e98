"""Delayed messages, ``mq.timers``: cancel, reschedule, list and look them up.

Entry points: ``Timers`` and ``ScheduledMessage``.

Invariants: an operation addresses a message by its id at all brokers of the topic. The answer says
whether the message was cancelled, was delivered before, or is unknown.

May import: ``engine``, ``messages``.
"""
