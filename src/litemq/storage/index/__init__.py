"""The key index: log offsets by message key or message id. A projection of the log.

Entry points: ``Finder`` (look-ups), ``KeyIndexes`` (all index files), ``ActiveKeyIndex`` (the file
that is being filled).

Invariants: the index follows the log in chunks, and is rebuilt if it is damaged or missing (I11).
An index hit is a hint; the record decides.

May import: ``state``, ``log``, ``files``.
"""
