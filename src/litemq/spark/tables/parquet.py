"""Plain table: Parquet files, and manifests that define which of them belong to the table.

``_batches/00000000000000000007.json`` is version 7 of the table: the application and batch that
committed it, the files it adds, and the files it removes. A commit writes a temporary file and
links it to the next version's name, which succeeds for one writer only. Every ``_SNAPSHOT_EVERY``
versions, a ``.snapshot.json`` holds the whole list, from which readers start.
``_batches/table.json`` identifies the table.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from litemq.errors import InvalidArgumentError
from litemq.spark.tables.folder import TableFolder, sync_folder
from litemq.spark.tables.layout import TableFile, TableLayout
from litemq.spark.tables.table import check_alone

__all__ = ["ParquetTable", "is_parquet"]

_FORMAT: Final = 1
_MANIFEST = re.compile(r"(\d{20})\.json", re.ASCII)
_SNAPSHOT = re.compile(r"(\d{20})\.snapshot\.json", re.ASCII)
_SNAPSHOT_EVERY: Final = 50
# Snapshots keep the removal time of files for this long: longer than any reader of an old version.
_REMOVED_KEPT_S: Final = 31 * 86_400
_TRIES: Final = 5


def is_parquet(folder: TableFolder) -> bool:
    """Return whether ``folder`` has a plain table."""
    return folder.local is not None and (folder.local / "_batches" / "table.json").exists()


class ParquetTable:
    """A plain table; see ``Table`` for the methods."""

    def __init__(self, folder: TableFolder, layout: TableLayout, *, create: bool = False) -> None:
        self.folder = folder
        self.layout = layout
        self._batches = folder.local_path("the format parquet") / "_batches"
        if create and not is_parquet(folder):
            self._batches.mkdir(parents=True, exist_ok=True)
            description = {
                "format": _FORMAT,
                "id": str(uuid.uuid4()),
                "columns": layout.schema.names,
                "partition_by": layout.partition_by,
            }
            self._write_once("table.json", description)
        if not is_parquet(folder):
            raise InvalidArgumentError(f"{folder.location}: no table")
        self._description = json.loads((self._batches / "table.json").read_text())
        if self._description["format"] != _FORMAT or list(self._description["columns"]) != layout.schema.names:
            raise InvalidArgumentError(
                f"{folder.location}: the existing table has other columns; choose another location"
            )
        self._version = -1
        self._files: dict[str, TableFile] = {}
        self._last: dict[str, int] = {}
        self._removed: dict[str, float] = {}  # removal time of each file, by path
        self.refresh()

    def identity(self) -> str:
        return str(self._description["id"])

    def refresh(self) -> None:
        for left in reversed(range(_TRIES)):
            try:
                self._read_new_versions()
            except FileNotFoundError:  # vacuum deleted a superseded file after it was listed
                if not left:
                    raise
            else:
                return

    def _read_new_versions(self) -> None:
        names = [one.name for one in self._batches.iterdir()]
        snapshots = [int(found[1]) for name in names if (found := _SNAPSHOT.fullmatch(name))]
        newest = max(snapshots, default=-1)
        if newest > self._version:
            whole = json.loads((self._batches / f"{newest:020d}.snapshot.json").read_text())
            self._files = {one["path"]: TableFile(**one) for one in whole["files"]}
            self._last, self._removed = whole["last"], whole["removed"]
            self._version = newest
        versions = sorted(int(found[1]) for name in names if (found := _MANIFEST.fullmatch(name)))
        for version in versions:
            if version > self._version:
                self._apply_manifest(version, json.loads((self._batches / f"{version:020d}.json").read_text()))

    def _apply_manifest(self, version: int, manifest: dict[str, Any]) -> None:
        if version != self._version + 1:
            raise InvalidArgumentError(
                f"{self._batches}: version {self._version + 1} is missing, but {version} exists: restore it"
            )
        for path in manifest["remove"]:
            self._files.pop(path, None)
            self._removed[path] = manifest["at"]
        for one in manifest["add"]:
            self._files[one["path"]] = TableFile(**one)
        if manifest["app_id"]:
            self._last[manifest["app_id"]] = manifest["batch_id"]
        self._version = version

    def files(self, partition: dict[str, str] | None = None) -> list[TableFile]:
        wanted = (partition or {}).items()
        return [one for one in self._files.values() if all(one.partition.get(name) == value for name, value in wanted)]

    def last_batch(self, app_id: str) -> int | None:
        return self._last.get(app_id)

    def append(self, files: Sequence[TableFile], app_id: str, batch_id: int, *, alone: bool = False) -> bool:
        while True:
            self.refresh()
            if self._last.get(app_id, -1) >= batch_id:
                return False
            if alone:
                check_alone(self, app_id)
            if self._commit(app_id, batch_id, files, ()):
                return True

    def replace(self, old: Sequence[TableFile], new: Sequence[TableFile]) -> bool:
        while True:
            self.refresh()
            if not all(one.path in self._files for one in old):
                return False
            if self._commit("", 0, new, [one.path for one in old]):
                return True

    def _commit(self, app_id: str, batch_id: int, add: Iterable[TableFile], remove: Iterable[str]) -> bool:
        version = self._version + 1
        manifest = {
            "at": time.time(),
            "app_id": app_id,
            "batch_id": batch_id,
            "add": [asdict(one) for one in add],
            "remove": list(remove),
        }
        if not self._write_once(f"{version:020d}.json", manifest):
            return False
        self._apply_manifest(version, manifest)
        if version % _SNAPSHOT_EVERY == _SNAPSHOT_EVERY - 1:
            self._removed = {path: at for path, at in self._removed.items() if at > time.time() - _REMOVED_KEPT_S}
            whole = {
                "files": [asdict(one) for one in self._files.values()],
                "last": self._last,
                "removed": self._removed,
            }
            self._write_once(f"{version:020d}.snapshot.json", whole)
        return True

    def _write_once(self, name: str, value: object) -> bool:
        """Write a new file atomically and sync it. Return ``False`` if it already exists."""
        staged = self._batches / f".{uuid.uuid4()}"
        try:
            with staged.open("x") as file:
                json.dump(value, file)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(staged, self._batches / name)
            except FileExistsError:
                return False
        finally:
            staged.unlink(missing_ok=True)
        sync_folder(self._batches)
        return True

    def vacuum(self, older_than_s: float, *, dry_run: bool) -> list[str]:
        # List the files first, then read the table: a file committed in between is not a leftover.
        existing = self.folder.data_files(older_than_s)
        self.refresh()
        before = time.time() - older_than_s
        deleted = [path for path in existing if path not in self._files and self._removed.get(path, 0.0) <= before]
        deleted += [str(Path("_batches") / name) for name in self._superseded(before)]
        if not dry_run:
            for path in deleted:
                self.folder.delete(path)
        return deleted

    def _superseded(self, before: float) -> list[str]:
        """Return the files that a snapshot written before ``before`` supersedes."""
        names = [one.name for one in self._batches.iterdir()]
        old = [
            int(found[1])
            for name in names
            if (found := _SNAPSHOT.fullmatch(name)) and (self._batches / name).stat().st_mtime <= before
        ]
        newest = max(old, default=-1)
        return sorted(
            name
            for name in names
            if ((found := _MANIFEST.fullmatch(name)) or (found := _SNAPSHOT.fullmatch(name))) and int(found[1]) < newest
        )
