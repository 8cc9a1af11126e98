"""File system access of the store.

Entry points: ``Disk`` (every durable operation), ``NewFile`` (written whole, then renamed),
``FilePool``, ``DirectoryLock``, ``read_checked`` (a CRC for each 4 KiB block).

Invariants: every durable operation goes through ``Disk``, so that a test can record it, cut the
power at any step, or fill the disk. One process has a data directory open.

May import: ``litemq.errors`` and the standard library.
"""
