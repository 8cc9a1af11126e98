"""Timers in the state: totals, changed due times, and cancelled batches.

Entry classes: ``PendingTotals`` (number and size of all timers), ``MovedTimers`` (due times that
differ from the record's), ``TimerBatches`` (cancelled batches).

Invariants: each class is a function of the log alone. The state does not list the timers: the
bucket files of ``storage.timers`` do. If a file and ``MovedTimers`` disagree about a due time,
``MovedTimers`` is right.

May import: ``state.part``; ``proto``. Never the machine or another part.
"""
