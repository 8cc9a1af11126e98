"""Consumers and readers of a topic: queue, lease, ordered and broadcast mode, and without a group.

Entry points: ``Consumer``, ``LeaseConsumer``, ``OrderedConsumer``, ``BroadcastConsumer``,
``Reader``; ``OpenFeeds`` opens them, and ``ConsumingApi`` is their part of the client. ``Feed``
reads all queues of a topic across broker restarts and route changes; ``Inbox`` buffers fetched
messages.

Invariants: a consumer commits only the finished prefix of a queue, so an unfinished message is
delivered again. Fetched messages are bounded in bytes. Offsets older than the broker's log are read
from the archive.

May import: ``leases``, ``engine``, ``messages``, ``settling``.
"""
