"""Schedules of jobs: cron expressions with time zones, and intervals.

Entry points: ``cron_schedule`` parses an expression, ``EverySchedule`` is an interval. Both are
pure: they map a time to the next time, and read no clock.

Invariants: when clocks change, a fixed time of day fires once a day: after the gap if it is
skipped, the first time if it occurs twice. A schedule with ``*`` in its hour or minute follows the
clock as shown. croniter parses the fields; the search for the next time is our own, because a
million jobs need it.

May import: ``types``, ``errors``, and croniter.
"""
