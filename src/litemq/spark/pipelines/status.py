"""Status of the archive: a line of output per batch, and a file for ``litemq pipeline status``."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import time
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from litemq.errors import InvalidArgumentError
from litemq.spark.pipelines.config import ArchiveConfig

__all__ = ["Status", "read_status", "status_rows"]

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


class Status:
    """The status file, replaced atomically after each batch."""

    def __init__(self, config: ArchiveConfig, table_id: str) -> None:
        self._file = config.status_file
        before = _read(self._file)
        same = before.get("table_id") == table_id
        self.facts: dict[str, Any] = {
            "state": "starting",
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "table": config.table,
            "format": config.table_format,
            "checkpoint": config.checkpoint_location,
            "table_id": table_id,
            "started_at": _now(),
            "batch_id": before.get("batch_id") if same else None,
            "rows_total": before.get("rows_total", 0) if same else 0,
            "rows_lost": before.get("rows_lost", 0) if same else 0,
            "rows": 0,
            "files": 0,
            "rows_per_s": 0.0,
            "bytes_per_s": 0.0,
            "lag": None,
            "not_noted": [],
            "error": "",
        }
        self.write()

    def set_state(self, state: str, *, error: str = "") -> None:
        """Set the state, and the error that caused it."""
        self.facts.update(state=state, error=error)
        self.write()

    def batch(
        self, batch_id: int, *, rows: int, read_bytes: int, files: int, lost: int, seconds: float, lag: int | None
    ) -> str:
        """Record that a batch is in the table, and return the line that reports it."""
        self.facts["rows_total"] += rows
        self.facts["rows_lost"] += lost
        self.facts.update(
            state="running",
            batch_id=batch_id,
            rows=rows,
            files=files,
            rows_per_s=rows / seconds,
            bytes_per_s=read_bytes / seconds,
            lag=lag,
        )
        self.write()
        lost_text = f", {lost:,} lost" if lost else ""
        lag_text = "" if lag is None else f", {lag:,} behind"
        rates = f"{rows / seconds:,.0f} rows/s, {_size(read_bytes / seconds)}/s"
        return f"batch {batch_id}: {rows:,} rows{lost_text} in {files} files, {rates}{lag_text}"

    def write(self) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_name(f".{self._file.name}.{uuid4().hex}")
        self.facts["updated_at"] = _now()
        temporary.write_text(json.dumps(self.facts, indent=2))
        temporary.replace(self._file)


def read_status(config: ArchiveConfig) -> dict[str, Any]:
    """Read the last status of the archive. If its process is gone, the state is ``gone``."""
    found = _read(config.status_file)
    if not found:
        raise InvalidArgumentError(
            f"{config.checkpoint_location}: no archive has run with this checkpoint; "
            "use the same settings as for `litemq pipeline run archive`"
        )
    if (
        found["state"] in ("starting", "running", "starting again")
        and found["host"] == socket.gethostname()
        and not _is_alive(found["pid"])
    ):
        found["state"] = "gone"
    return found


def status_rows(found: dict[str, Any]) -> list[list[str]]:
    """Return the status as rows of name and value."""
    lag = "unknown" if found["lag"] is None else f"{found['lag']:,} messages"
    state = {"gone": "not running (it did not shut down): start it again to continue from its checkpoint"}.get(
        found["state"], found["state"]
    )
    lines = {
        "state": state + (f": {found['error']}" if found["error"] else ""),
        "table": f"{found['table']} ({found['format']})",
        "checkpoint": found["checkpoint"],
        "last batch": "none yet"
        if found["batch_id"] is None
        else f"{found['batch_id']}: {found['rows']:,} rows in {found['files']} files",
        "rate": f"{found['rows_per_s']:,.0f} rows/s, {_size(found['bytes_per_s'])}/s",
        "rows": f"{found['rows_total']:,}" + (f", and {found['rows_lost']:,} lost" if found["rows_lost"] else ""),
        "behind": lag,
        **({"rejected by": "; ".join(found["not_noted"])} if found.get("not_noted") else {}),
        "as of": found["updated_at"],
    }
    return [[name, value] for name, value in lines.items()]


def _read(file: Path | None) -> dict[str, Any]:
    if file is None or not file.exists():
        return {}
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _now() -> str:
    return dt.datetime.fromtimestamp(time.time(), dt.UTC).isoformat(timespec="seconds")


def _size(number: float) -> str:
    power = 0
    while number >= 1000 and power + 1 < len(_UNITS):
        number, power = number / 1000, power + 1
    return f"{number:.3g} {_UNITS[power]}"
