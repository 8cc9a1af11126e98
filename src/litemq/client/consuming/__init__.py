"""Iterating over a topic: queue mode, lease mode, ordered, broadcast, and readers without a group.

Entry points: ``Consumer``, ``LeaseConsumer``, ``OrderedConsumer``, ``BroadcastConsumer``, ``Reader``;
``OpenFeeds`` opens them for a client. ``Feed`` reads all queues of a topic through restarts and route
changes; ``Inbox`` holds what was fetched.

Invariants: only the finished prefix of a queue is committed, so an unfinished message is delivered again.
Fetched messages are bounded in bytes. A position older than the broker's log continues in the archive.

May import: ``leases``, ``engine``, ``messages``, ``settling``.
"""
