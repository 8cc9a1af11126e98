"""Why a stream failed, as an error of LiteMQ: Spark's message contains what a task or the planner raised."""

from __future__ import annotations

import re

from litemq import errors
from litemq.errors import LiteMQError, PipelineFailedError

__all__ = ["litemq_error"]

_LITEMQ_ERROR = re.compile(r"litemq\.errors\.(\w+Error): ([^\n]*)")


def litemq_error(error: BaseException) -> LiteMQError:
    """The error of LiteMQ that caused ``error``, or a ``PipelineFailedError`` with the first line of Spark's message."""
    if isinstance(error, LiteMQError):
        return error
    text = str(error)
    for name, message in reversed(_LITEMQ_ERROR.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, LiteMQError):
            try:
                return kind(message)
            except TypeError:  # it wants more than its words
                return PipelineFailedError(message)
    first = next((line for line in text.splitlines() if line.strip()), repr(error))
    return PipelineFailedError(f"{first} (the whole story is in Spark's log)")
