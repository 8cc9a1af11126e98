"""The state on disk: its rows in ``state.db``, and the topics in ``topics.json``.

Entry classes: ``StateWriter`` (writes both files), ``StateDatabase`` (``state.db``), ``Changes``
(changes whose records are not confirmed yet). ``row_key`` returns the primary key of a row.

Invariants: both files are projections. A row never contains a change whose record is not confirmed.
Each commit stores the log offset up to which the rows hold, in the same transaction. If
``state.db`` is damaged, missing or too old, the store rebuilds it from the log.

May import: everything in ``state``; ``storage.files``, ``format``, ``proto``, ``clock``. No other
module of ``state`` imports it.
"""
