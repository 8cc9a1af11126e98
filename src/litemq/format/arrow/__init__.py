"""Conversion between records and Arrow batches; the only part of ``format`` that imports pyarrow.

Entry points: ``decode_batches`` and ``SCHEMA`` (records to rows), ``encode.py`` (rows to records).

Invariants: every field of a record is a column, so a record is rebuilt from its row bit for bit.
Only valid columns are converted; validation happens before.

May import: every other part of ``litemq.format``, and pyarrow.
"""

from litemq.format.arrow.batches import SCHEMA, decode_batches, to_record_batch

__all__ = ["SCHEMA", "decode_batches", "to_record_batch"]
