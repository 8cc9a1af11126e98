"""Scheduled messages, ``mq.jobs``: create, change, list, pause, trigger and import jobs.

Entry points: ``Jobs``; ``JobImport`` sends many jobs, some hundred per request.

Invariants: a job lives on the broker that the hash of its id chooses, so creating it twice is
refused and never makes two. An import reports each refused job with its reason.

May import: ``engine``, ``messages``.
"""
