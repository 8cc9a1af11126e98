"""Opening and creation of tables, by the format at a location."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from litemq.errors import InvalidArgumentError
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import MESSAGES, TableLayout
from litemq.spark.tables.parquet import ParquetTable, is_parquet
from litemq.spark.tables.table import Table

__all__ = ["TABLE_FORMATS", "TableFormat", "create_table", "open_table"]

# delta-spark is the same Delta table, written by Spark's connector.
TableFormat: TypeAlias = Literal["delta", "delta-spark", "parquet"]
TABLE_FORMATS: Final[tuple[str, ...]] = get_args(TableFormat)


def open_table(location: str, layout: TableLayout = MESSAGES) -> Table:
    """Open the table at ``location``. Raise if there is none."""
    folder = TableFolder(location)
    if is_parquet(folder):
        return ParquetTable(folder, layout)
    from litemq.spark.tables.delta_rs import DeltaRsTable, is_delta

    if is_delta(folder):
        return DeltaRsTable(folder, layout)
    raise InvalidArgumentError(f"{folder.location}: no table yet; create it with `litemq pipeline run archive`")


def create_table(location: str, table_format: TableFormat, layout: TableLayout = MESSAGES) -> Table:
    """Open the table at ``location``, or create it. Raise if there is one of another format."""
    folder = TableFolder(location)
    if table_format == "parquet":
        if folder.local is not None and (folder.local / "_delta_log").exists():
            raise _format_error(folder, "a Delta table", "delta")
        return ParquetTable(folder, layout, create=True)
    if is_parquet(folder):
        raise _format_error(folder, "a plain table", "parquet")
    from litemq.spark.tables.delta_rs import DeltaRsTable

    return DeltaRsTable(folder, layout, create=True)


def _format_error(folder: TableFolder, what: str, its_format: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{folder.location}: {what} already exists; choose another location, or the format {its_format}"
    )
