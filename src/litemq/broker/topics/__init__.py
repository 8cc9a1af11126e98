"""Topics: created, altered, deleted, described; and how far their archives have come.

Entry points: ``TopicRequests`` and ``ArchiveRequests`` answer clients; ``settings_from_wire`` and
``settings_to_wire`` convert settings from and to the wire.

Invariants: settings are validated here, before they become a record. Creating a topic again with
the same settings succeeds; with other settings it is refused.

May import: ``runtime``, ``limits``.
"""
