"""Delta table without Spark's connector: delta-rs commits the files that tasks have written.

Any Delta reader can read it. A commit carries a ``txn`` action with the application and the batch,
by which a committed batch is recognized. If two writers commit the same batch, one is refused.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from litemq.errors import InvalidArgumentError, MissingExtraError
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import TableFile, TableLayout
from litemq.spark.tables.table import check_alone

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction
else:
    try:
        from deltalake import CommitProperties, DeltaTable, Schema, Transaction
        from deltalake.exceptions import CommitFailedError, TableNotFoundError
        from deltalake.transaction import AddAction, RemoveAction
    except ModuleNotFoundError:
        raise MissingExtraError("a Delta table", "spark") from None

__all__ = ["DeltaRsTable", "is_delta"]

_TRIES: Final = 20
# delta-rs writes a checkpoint of the table's log at this interval of commits.
_CONFIGURATION: Final = {"delta.checkpointInterval": "50", "delta.logRetentionDuration": "interval 7 days"}
_STATISTICS: Final = "delta.dataSkippingStatsColumns"  # Delta's default: the first 32 columns


def is_delta(folder: TableFolder) -> bool:
    """Return whether ``folder`` has a Delta table."""
    return bool(DeltaTable.is_deltatable(folder.location))


class DeltaRsTable:
    """A Delta table; see ``Table`` for the methods."""

    def __init__(self, folder: TableFolder, layout: TableLayout, *, create: bool = False) -> None:
        self.folder = folder
        self.layout = layout
        self._schema = (
            Schema.from_json(layout.delta_schema) if layout.delta_schema else Schema.from_arrow(layout.schema)
        )
        if create:
            if folder.local is not None:
                folder.local.mkdir(parents=True, exist_ok=True)
            configuration = {
                **_CONFIGURATION,
                **({_STATISTICS: ",".join(layout.statistics)} if layout.statistics else {}),
            }
            DeltaTable.create(
                folder.location,
                self._schema,
                mode="ignore",
                partition_by=list(layout.partition_by),
                configuration=configuration,
            )
        try:
            self._table = DeltaTable(folder.location)
        except TableNotFoundError:
            raise InvalidArgumentError(f"{folder.location}: no Delta table") from None
        self._check_columns()

    def _check_columns(self) -> None:
        existing = {field.name for field in self._table.schema().fields}
        missing = [name for name in self.layout.schema.names if name not in existing]
        if missing or tuple(self._table.metadata().partition_columns) != self.layout.partition_by:
            raise InvalidArgumentError(
                f"{self.folder.location}: the existing Delta table has another layout: "
                f"it lacks {', '.join(missing) or 'no column'} and is partitioned "
                f"by {', '.join(self._table.metadata().partition_columns) or 'nothing'}; choose another location"
            )

    def identity(self) -> str:
        return str(self._table.metadata().id)

    def refresh(self) -> None:
        self._table.update_incremental()

    def files(self, partition: dict[str, str] | None = None) -> list[TableFile]:
        found = pa.table(self._table.get_add_actions(flatten=True))
        for name, value in (partition or {}).items():
            column = found[f"partition.{name}"]
            found = found.filter(pc.equal(column.cast(pa.string()), value))
        return [self._file(row) for row in found.to_pylist()]

    def _file(self, row: Mapping[str, Any]) -> TableFile:
        minimums, maximums = (
            {name[4:]: _statistic(value) for name, value in row.items() if name.startswith(kind) and value is not None}
            for kind in ("min.", "max.")
        )
        partition = {name: str(row[f"partition.{name}"]) for name in self.layout.partition_by}
        return TableFile(row["path"], row["size_bytes"], row["num_records"], partition, minimums, maximums)

    def last_batch(self, app_id: str) -> int | None:
        return self._table.transaction_version(app_id)

    def append(self, files: Sequence[TableFile], app_id: str, batch_id: int, *, alone: bool = False) -> bool:
        actions: list[AddAction | RemoveAction] = [_add(one, data_change=True) for one in files]
        for _ in range(_TRIES):
            self.refresh()
            last = self.last_batch(app_id)
            if last is not None and last >= batch_id:
                return False
            if alone:
                check_alone(self, app_id)
            if self._commit(actions, Transaction(app_id, batch_id)):
                return True
        raise self._conflict_error()

    def replace(self, old: Sequence[TableFile], new: Sequence[TableFile]) -> bool:
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            *(_add(one, data_change=False) for one in new),
            *(RemoveAction(one.path, False, now, one.size, dict(one.partition)) for one in old),
        ]
        for _ in range(_TRIES):
            self.refresh()
            existing = set(pa.table(self._table.get_add_actions())["path"].to_pylist())
            if not all(one.path in existing for one in old):
                return False
            if self._commit(actions, None):
                return True
        raise self._conflict_error()

    def _commit(self, actions: list[AddAction | RemoveAction], transaction: Transaction | None) -> bool:
        """Commit on top of the version that was read, and of no other; return whether it succeeded.

        delta-rs would not treat two removals of the same file as a conflict.
        """
        properties = CommitProperties(app_transactions=[transaction] if transaction else None, max_commit_retries=0)
        try:
            self._table.create_write_transaction(
                actions, "append", self._schema, list(self.layout.partition_by), commit_properties=properties
            )
        except CommitFailedError:
            return False
        self.refresh()
        return True

    def _conflict_error(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self.folder.location}: {_TRIES} commits in a row conflicted with other writers: stop the other writers"
        )

    def vacuum(self, older_than_s: float, *, dry_run: bool) -> list[str]:
        hours = math.ceil(older_than_s / 3600)
        self.refresh()
        return list(self._table.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True))


def _add(file: TableFile, *, data_change: bool) -> AddAction:
    stats = {
        "numRecords": file.rows,
        "minValues": dict(file.least),
        "maxValues": dict(file.most),
        "nullCount": dict.fromkeys(file.least, 0),
    }
    return AddAction(
        file.path, file.size, dict(file.partition), int(time.time() * 1000), data_change, json.dumps(stats)
    )


def _statistic(value: Any) -> Any:
    """Format a time as in the table's log."""
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if hasattr(value, "isoformat") else value
