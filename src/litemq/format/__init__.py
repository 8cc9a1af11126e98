"""The record format: a scalar codec for a single record, a columnar codec for batches.

Entry points: ``record.py`` has the byte layout; ``encode_record``, ``RecordTemplate`` and
``decode_record`` are the scalar codec. ``columns`` reads the headers of a batch, ``batches``
scans, checks and stamps it. ``arrow`` converts records to and from Arrow batches, ``v1`` reads the
original layout.

Invariants: tests hold the two codecs equal, and the loops in C (``_native``) equal to both. Golden
files pin the bytes: a change of the layout is a new version.

May import: ``types``, ``errors``, numpy, and the libraries for CRC32C, lz4 and zstd. Only
``arrow`` imports pyarrow.
"""
