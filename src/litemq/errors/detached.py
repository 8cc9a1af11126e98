"""Errors that outlive their handler: in a list, a future or an attribute.

A traceback keeps the frames of a call and all their variables. If one of these leads back to the
error, they form a cycle, which only the garbage collector frees, with every buffer that they use.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["detached"]

E = TypeVar("E", bound=BaseException)


def detached(error: E) -> E:
    """Remove the tracebacks of ``error`` and of its causes; return it."""
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__
    return error
