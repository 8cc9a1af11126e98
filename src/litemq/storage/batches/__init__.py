"""Batches before they are appended: validated, grouped by queue, stamped, and decoded into events.

Entry points: ``sent_batch``, ``placed_batch`` and ``control_batch`` build a ``Batch``; ``stamp``
writes the broker's fields; ``numbered_events`` returns the state changes of stored records.

Invariants: a batch is appended whole or not at all. Every store uses the same functions, so memory
and disk behave alike. Producers' bytes are never changed, only the broker's fields.

May import: ``state``, and ``litemq.format``.
"""
