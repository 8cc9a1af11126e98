"""Cron jobs: messages that the broker sends by itself, on a schedule.

Entry points: ``JobScheduler`` sends the messages that are due, ``JobRequests`` answers clients,
``ManualRuns`` triggers and backfills. ``job.py`` is pure: it validates a job, computes its due
ticks and builds the record of a tick.

Invariants (I9): the record that delivers a tick names the job and the tick, so a tick fires at most
once, also across a crash. Missed ticks follow the job's ``catch_up`` rule.

May import: ``runtime``, ``limits``, and ``litemq.schedules``.
"""
