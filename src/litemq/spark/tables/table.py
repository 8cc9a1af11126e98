"""What a table is to the archive and to those who read it: files, and commits that name them.

A commit is all or nothing, and a batch is committed once: of the same application's batches, one whose number is not higher than the last
committed one is known, and not added again. So it may be written and committed again, by whoever does not know how far it got.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import TableFile, TableLayout

__all__ = ["Table"]


class Table(Protocol):
    """A table in a folder of its own."""

    folder: TableFolder
    layout: TableLayout

    def identity(self) -> str:
        """Which table it is: another one in the same place has another identity."""

    def refresh(self) -> None:
        """Take in what was committed since it was opened."""

    def files(self, partition: dict[str, str] | None = None) -> list[TableFile]:
        """The files that are in it now; only those of a partition, where some of its columns are named."""

    def last_batch(self, app_id: str) -> int | None:
        """The last batch of an application that is in it."""

    def append(self, files: Sequence[TableFile], app_id: str, batch_id: int) -> bool:
        """Add a batch's files; false where the batch is in it already, and nothing was added."""

    def replace(self, old: Sequence[TableFile], new: Sequence[TableFile]) -> bool:
        """Put files in the place of others that hold the same rows; false where not all of the others are there any more."""

    def vacuum(self, older_than_s: float, *, dry_run: bool) -> list[str]:
        """Delete files that the table does not name and has not named for a while; says which."""
