"""The file system, as the store uses it.

Entry points: ``Disk`` (every durable operation), ``NewFile`` (written whole, then renamed), ``FilePool``,
``DirectoryLock``, ``read_checked`` (a CRC for each 4 KiB block).

Invariants: everything durable goes through ``Disk``, so that a test can record it, cut the power at any
step, or fill the disk. One process holds a data directory.

May import: ``litemq.errors`` and the standard library.
"""
