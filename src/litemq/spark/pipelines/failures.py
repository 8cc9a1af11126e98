"""Conversion of a stream's failure to a ``LiteMQError``, which Spark's message contains as text."""

from __future__ import annotations

import re

from litemq import errors
from litemq.errors import LiteMQError, PipelineFailedError

__all__ = ["litemq_error"]

_LITEMQ_ERROR = re.compile(r"litemq\.errors\.(\w+Error): ([^\n]*)")


def litemq_error(error: BaseException) -> LiteMQError:
    """Return the ``LiteMQError`` that caused ``error``, or a ``PipelineFailedError``."""
    if isinstance(error, LiteMQError):
        return error
    text = str(error)
    for name, message in reversed(_LITEMQ_ERROR.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, LiteMQError):
            try:
                return kind(message)
            except TypeError:  # its constructor needs more arguments
                return PipelineFailedError(message)
    first = next((line for line in text.splitlines() if line.strip()), repr(error))
    return PipelineFailedError(f"{first} (see Spark's log for details)")
