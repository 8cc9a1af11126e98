"""A batch on its way into the log: validated, grouped by queue, stamped, and what it means for the state.

Entry points: ``sent_batch``, ``placed_batch`` and ``control_batch`` build a ``Batch``; ``stamp`` writes the
broker's fields; ``numbered_events`` says what stored records change besides adding messages.

Invariants: a batch is appended whole or not at all. Every store uses the same functions, so memory and disk
behave alike. Producers' bytes are never changed, only the broker's fields.

May import: ``state``, and ``litemq.format``.
"""
