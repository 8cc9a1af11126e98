"""How long machines of states look for a history that goes wrong."""

from __future__ import annotations

import os

__all__ = ["is_deep"]


def is_deep() -> bool:
    """Whether somebody wants to wait: ``just histories``."""
    return os.environ.get("HYPOTHESIS_PROFILE") == "deep"
