"""Logging to standard error, one line per record."""

from __future__ import annotations

import logging
import sys
import time
from enum import StrEnum

__all__ = ["Level", "log_to_stderr"]


class Level(StrEnum):
    """Values of ``--log-level``."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _OneLine(logging.Formatter):
    """A formatter that keeps tracebacks and text from peers on the record's one line."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\r", "\\r").replace("\n", " | ")


def log_to_stderr(level: Level, program: str) -> None:
    """Log records of ``level`` and above to standard error, prefixed with ``program``."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = _OneLine(f"%(asctime)s %(levelname)-7s {program}: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
