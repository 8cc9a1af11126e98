"""A program's log: one line a record, on standard error."""

from __future__ import annotations

import logging
import sys
import time
from enum import StrEnum

__all__ = ["Level", "log_to_stderr"]


class Level(StrEnum):
    """What ``--log-level`` takes."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _OneLine(logging.Formatter):
    """A traceback's lines, and whatever a peer wrote into a message, stay within the record's one line."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\r", "\\r").replace("\n", " | ")


def log_to_stderr(level: Level, program: str) -> None:
    """From here on, what is logged is printed."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _OneLine(f"%(asctime)s %(levelname)-7s {program}: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
