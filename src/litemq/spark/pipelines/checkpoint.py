"""Binding of a checkpoint to its table.

``litemq-archive.json`` in the checkpoint's directory names the table and the application id of its
batches. With another table, batches would be missing; with another checkpoint, rows would be
duplicated.
"""

from __future__ import annotations

import json
import uuid
from typing import Final

from litemq.errors import CheckpointMismatchError
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.table import Table

__all__ = ["application_id"]

_FILE: Final = "litemq-archive.json"


def application_id(checkpoint: TableFolder, table: Table) -> str:
    """Return the application id of a checkpoint's batches in ``table``.

    Raise if the two do not belong together.
    """
    known = checkpoint.read_text(_FILE)
    if known is not None:
        facts = json.loads(known)
        if facts["table_id"] != table.identity():
            raise CheckpointMismatchError(
                f"{checkpoint.location} is the checkpoint of another table, {facts['table']} ({facts['table_id']}), "
                f"not of {table.folder.location} ({table.identity()}): choose the checkpoint of this table, "
                "or a new table and checkpoint"
            )
        return str(facts["app_id"])
    if checkpoint.has_files("offsets"):
        raise CheckpointMismatchError(
            f"{checkpoint.location} is the checkpoint of another query, not of an archive: choose another directory"
        )
    if table.files():
        raise CheckpointMismatchError(
            f"{table.folder.location} already has rows that {checkpoint.location} does not know: "
            "a new stream would archive them again. Choose the checkpoint that archived them, or a new table"
        )
    app_id = f"litemq-archive-{uuid.uuid4()}"
    facts = {"app_id": app_id, "table": table.folder.location, "table_id": table.identity()}
    with checkpoint.new_file(_FILE) as stream:
        stream.write(json.dumps(facts).encode())
    return app_id
