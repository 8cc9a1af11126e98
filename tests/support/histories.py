"""The number of examples of stateful tests."""

from __future__ import annotations

import os

__all__ = ["is_deep"]


def is_deep() -> bool:
    """Return whether to run the long form: ``just histories``."""
    return os.environ.get("HYPOTHESIS_PROFILE") == "deep"
