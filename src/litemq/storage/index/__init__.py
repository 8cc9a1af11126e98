"""The key index: from a key or message id to log offsets. A projection of the log.

Entry points: ``Finder`` answers look-ups, ``KeyIndexes`` is all index files, ``ActiveKeyIndex`` the one that
is being filled.

Invariants: the index is built behind the log in chunks, and rebuilt if it is damaged or missing (I11). An
index hit is only a hint; the record decides.

May import: ``state``, ``log``, ``files``.
"""
