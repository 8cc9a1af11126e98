"""Retention: choose the segments to drop, and carry pending records forward first.

Entry points: ``first_segment_to_keep``, ``crossing_record``, ``carry_timers`` and its siblings,
``ArchiveGate``.

Invariants: a segment is dropped only after a confirmed snapshot, and after every record that is
still pending (timer, retry, half, dead letter) was appended again. Retention that crosses a group's
offset writes a record with the counts.

May import: ``timers``, ``batches``, ``state``, ``log``.
"""
