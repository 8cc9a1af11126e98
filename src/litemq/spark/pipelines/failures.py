"""Why a stream failed, in our words: what a task or the planner said is somewhere in what Spark says."""

from __future__ import annotations

import re

from litemq import errors
from litemq.errors import LiteMQError, PipelineFailedError

__all__ = ["in_our_words"]

_OURS = re.compile(r"litemq\.errors\.(\w+Error): ([^\n]*)")


def in_our_words(error: BaseException) -> LiteMQError:
    """The error of ours that is behind another; else what Spark said, its first line."""
    if isinstance(error, LiteMQError):
        return error
    text = str(error)
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, LiteMQError):
            try:
                return kind(message)
            except TypeError:  # it wants more than its words
                return PipelineFailedError(message)
    first = next((line for line in text.splitlines() if line.strip()), repr(error))
    return PipelineFailedError(f"{first} (the whole story is in Spark's log)")
