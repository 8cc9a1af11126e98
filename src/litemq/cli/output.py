"""How a command answers: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from enum import StrEnum

__all__ = ["OutputFormat", "write_json"]


class OutputFormat(StrEnum):
    """What ``--format`` takes."""

    TABLE = "table"
    JSON = "json"


def write_json(value: object) -> None:
    """One JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
