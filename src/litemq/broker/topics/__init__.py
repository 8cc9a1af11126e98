"""Topics: their settings, and how far their archives have come.

Entry points: ``settings_of`` and ``told_settings`` convert settings from and to the wire,
``ArchiveRequests`` answers ARCHIVED_THROUGH and DESCRIBE_ARCHIVE.

Invariants: settings are validated here, before they become a record. Creating a topic again with the same
settings succeeds; with other settings it is refused.

May import: ``runtime``, ``limits``.
"""
