"""Interface of a table: files, and atomic commits that add or replace them.

A batch is committed once. If its number is not higher than the last committed batch of the same
application, the commit adds nothing. So a writer that does not know whether its commit succeeded
may repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from litemq.errors import CheckpointMismatchError
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import TableFile, TableLayout

__all__ = ["Table", "check_alone"]


class Table(Protocol):
    """A table in its own directory."""

    folder: TableFolder
    layout: TableLayout

    def identity(self) -> str:
        """Return the table's unique id: another table at the same location has another id."""

    def refresh(self) -> None:
        """Read the commits since the last refresh."""

    def files(self, partition: dict[str, str] | None = None) -> list[TableFile]:
        """Return the table's files, or those whose partition has the values in ``partition``."""

    def last_batch(self, app_id: str) -> int | None:
        """Return the last committed batch of an application, or ``None``."""

    def append(self, files: Sequence[TableFile], app_id: str, batch_id: int, *, alone: bool = False) -> bool:
        """Commit the files of a batch. Return ``False`` if the table already has the batch.

        If ``alone``, call ``check_alone`` for the version on which the commit is based.
        """

    def replace(self, old: Sequence[TableFile], new: Sequence[TableFile]) -> bool:
        """Replace ``old`` by ``new``, which hold the same rows.

        Return ``False`` if a file of ``old`` is gone.
        """

    def vacuum(self, older_than_s: float, *, dry_run: bool) -> list[str]:
        """Delete files outside the table for ``older_than_s``; return their paths."""


def check_alone(table: Table, app_id: str) -> None:
    """Raise if ``table`` has rows, and none of them are from the application ``app_id``.

    Another archive has then begun with another checkpoint, and has the same messages.
    """
    if table.last_batch(app_id) is None and table.files():
        raise CheckpointMismatchError(
            f"{table.folder.location} has rows of another archive, which started with another checkpoint: this one "
            "would archive them again. Choose the checkpoint that archived them, or a new table"
        )
