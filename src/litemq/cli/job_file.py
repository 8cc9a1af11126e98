"""Job files: JSON lines or CSV, read line by line."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO

from litemq.cli.bodies import CONTENT_TYPE, JSON, content_type_of
from litemq.client.engine.job import ImportResult
from litemq.client.jobs.bulk_import import NewJob

__all__ = ["JobFile"]

_NUMBERS: Final = ("every", "catch_up_window", "jitter", "timeout")
_WHOLE: Final = ("max_retries", "priority")
_LISTS: Final = ("tags", "keys")


class JobFile:
    """An open job file.

    A line that is not a job is yielded as text, which the import then rejects.
    """

    def __init__(self, path: Path) -> None:
        self._is_csv = path.suffix.lower() == ".csv"
        self._file: TextIO = (
            sys.stdin if str(path) == "-" else path.open(encoding="utf-8", errors="replace", newline="")
        )
        self._lines: list[tuple[int, int]] = []  # from this job number on, the line number is this much higher

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not sys.stdin:
            self._file.close()

    def __iter__(self) -> Iterator[NewJob]:
        for given, (line, job) in enumerate(self._csv() if self._is_csv else self._json(), 1):
            further = line - given
            if further != (self._lines[-1][1] if self._lines else 0):
                self._lines.append((given, further))
            yield job

    def _json(self) -> Iterator[tuple[int, Any]]:
        for line, text in enumerate(self._file, 1):
            if text.strip():
                try:
                    yield line, json.loads(text)
                except ValueError:
                    yield line, text.strip()

    def _csv(self) -> Iterator[tuple[int, Any]]:
        rows = csv.DictReader(self._file)
        for row in rows:
            if None in row:
                yield rows.line_num, "more fields than the header has: quote values that contain a comma"
                continue
            given: dict[str, Any] = {name: value for name, value in row.items() if name and value}
            try:
                given |= {name: float(given[name]) for name in _NUMBERS if name in given}
                given |= {name: int(given[name]) for name in _WHOLE if name in given}
            except ValueError as error:
                yield rows.line_num, str(error)
                continue
            given |= {name: given[name].split(";") for name in _LISTS if name in given}
            if "paused" in given:
                given["paused"] = given["paused"].lower() in ("1", "true", "yes")
            if content_type_of(body := given.get("body", "").encode()) == JSON:
                given["body"] = body
                given.setdefault("properties", {CONTENT_TYPE: JSON})
            yield rows.line_num, given

    def with_lines(self, result: ImportResult) -> ImportResult:
        """Replace the job numbers in ``result`` by line numbers of the file."""
        return result._replace(
            refused=tuple(refused._replace(number=self._line(refused.number)) for refused in result.refused)
        )

    def _line(self, number: int) -> int:
        further = 0
        for begin, lines in self._lines:
            if begin > number:
                break
            further = lines
        return number + further
