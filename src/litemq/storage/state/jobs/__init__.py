"""Jobs: their definitions, their progress through ticks, and the result of the latest tick.

Entry class: ``Jobs``. ``JobTable`` stores the numbers of all jobs by column.

Invariants: ``Jobs`` is a function of the log alone. A job keeps its number when its definition
changes. No job number is a multiple of 8, so that none equals a log offset. The record that
delivers a tick also marks the tick as sent: no tick is sent twice.

May import: ``state.part``; ``proto``. Never the machine or another part.
"""
