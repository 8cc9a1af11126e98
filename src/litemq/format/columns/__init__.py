"""Columns of many records, version 2: header fields, part positions, string lists, key hashes.

Entry points: ``RecordColumns`` holds the headers and the part positions of a batch; ``ListColumn``
the tags, keys or properties of its records; ``hash_keys`` and ``tag_hashes`` hash them.

Invariants: the columns are a view of the caller's buffer. Every start must come from a scan, so
the header and the whole record are inside the buffer. Part positions are reliable only if the
record's lengths add up; ``batches.check`` verifies that.

May import: the modules of ``litemq.format`` outside its sub-packages, and numpy.
"""
