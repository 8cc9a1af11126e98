"""Tools for a data directory without a broker: inspect, verify, rebuild, repair, import, export.

Entry points: ``DirectoryReader``, ``verify_directory``, ``rebuild_directory``, ``inspect_file``,
``export_messages``, ``import_messages``, ``RecordBoundaries``, ``ClosedLog``.

Invariants: readers take no lock, change nothing and stop at the checkpoint's confirmed offset. Only
rebuild, repair and import write, and they take the lock.

May import: everything in ``storage``.
"""
