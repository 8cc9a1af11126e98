"""A checkpoint and its table belong together: the one says what the other has.

Beside what Spark keeps in a checkpoint lies ``litemq-archive.json``: under which name its batches are in the table, and in which table. With
another table, batches would be left out that are not in it; with another checkpoint, rows would be in the table twice.
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
    """The application id under which the table knows the batches of a checkpoint. Raise if the two do not belong together."""
    known = checkpoint.read_text(_FILE)
    if known is not None:
        facts = json.loads(known)
        if facts["table_id"] != table.identity():
            raise CheckpointMismatchError(
                f"{checkpoint.location} is the checkpoint of another table, {facts['table']} ({facts['table_id']}), and not of the one that is "
                f"at {table.folder.location} now ({table.identity()}): choose the checkpoint of this table, or a new table with a new one"
            )
        return str(facts["app_id"])
    if checkpoint.has_files("offsets"):
        raise CheckpointMismatchError(
            f"{checkpoint.location} is the checkpoint of another query, and of no archive: choose another folder for it"
        )
    if table.files():
        raise CheckpointMismatchError(
            f"{table.folder.location} has rows already, and {checkpoint.location} knows nothing of them: a new stream would archive them again. "
            "Choose the checkpoint with which they were archived, or a new table"
        )
    app_id = f"litemq-archive-{uuid.uuid4()}"
    facts = {"app_id": app_id, "table": table.folder.location, "table_id": table.identity()}
    with checkpoint.new_file(_FILE) as stream:
        stream.write(json.dumps(facts).encode())
    return app_id
