"""Jobs: their definitions, how far their ticks are, and the result of the latest tick.

Entry class: ``Jobs``. ``JobTable`` stores the numbers of all jobs by column.

Invariants: ``Jobs`` is a function of the log alone. A job keeps its number however its definition changes. No
job number is a multiple of 8, so that none equals a log offset. The record that delivers a tick also marks
the tick as sent: no tick is sent twice.

May import: ``state.part``; ``proto``. Never the machine or another part.
"""
