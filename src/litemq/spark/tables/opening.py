"""Which kind of table is at a place, opened."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from litemq.errors import InvalidArgumentError
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import MESSAGES, TableLayout
from litemq.spark.tables.parquet import ParquetTable, is_parquet
from litemq.spark.tables.table import Table

__all__ = ["TABLE_FORMATS", "TableFormat", "create_table", "open_table"]

# delta-spark is a Delta table like the other; who writes it is Spark's own connector.
TableFormat: TypeAlias = Literal["delta", "delta-spark", "parquet"]
TABLE_FORMATS: Final[tuple[str, ...]] = get_args(TableFormat)


def open_table(location: str, layout: TableLayout = MESSAGES) -> Table:
    """The table that is at a place; raises where there is none."""
    folder = TableFolder(location)
    if is_parquet(folder):
        return ParquetTable(folder, layout)
    from litemq.spark.tables.delta_rs import DeltaRsTable, is_delta

    if is_delta(folder):
        return DeltaRsTable(folder, layout)
    raise InvalidArgumentError(f"{folder.location}: there is no table yet; `litemq pipeline run archive` makes it")


def create_table(location: str, table_format: TableFormat, layout: TableLayout = MESSAGES) -> Table:
    """The table at a place, made if there is none; raises where there is one of another kind."""
    folder = TableFolder(location)
    if table_format == "parquet":
        if folder.local is not None and (folder.local / "_delta_log").exists():
            raise _another(folder, "a Delta table", "delta")
        return ParquetTable(folder, layout, create=True)
    if is_parquet(folder):
        raise _another(folder, "a plain table", "parquet")
    from litemq.spark.tables.delta_rs import DeltaRsTable

    return DeltaRsTable(folder, layout, create=True)


def _another(folder: TableFolder, what: str, its_format: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{folder.location}: {what} is there already; choose another location, or the format {its_format}")
