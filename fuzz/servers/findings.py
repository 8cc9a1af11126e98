"""Collects the failures that servers handle themselves: logged errors and lost exceptions."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from litemq.errors import LiteMQError

__all__ = ["LoggedErrors"]

# For the operator: somebody deleted the topic of a delayed message.
_EXPECTED: Final = {"the delayed message at log offset %d cannot be delivered: %s"}


class LoggedErrors(logging.Handler):
    """Keeps log records of level ERROR, and exceptions that Python could only print.

    A server logs a known problem of a request at a lower level, so each of them is a defect.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.problems: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def install(self) -> None:
        """Collect the errors of all servers in this process; print no log."""
        log = logging.getLogger("litemq")
        log.addHandler(self)
        log.setLevel(logging.ERROR)
        log.propagate = False
        logging.getLogger("asyncio").addHandler(self)
        sys.unraisablehook = self._note

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg in _EXPECTED:
            return
        error = record.exc_info[1] if record.exc_info else None
        kind = "a refusal" if isinstance(error, LiteMQError) else "an error"
        self.problems.append(f"{kind} in the log: {self.format(record)}")

    def _note(self, unraisable: Any) -> None:
        self.problems.append(f"{unraisable.err_msg or 'exception ignored in'} {unraisable.object!r}: {unraisable!r}")

    def check(self, others: list[str]) -> None:
        """Fail if there is a problem, here or among ``others``; forget them all."""
        problems = self.problems + others
        self.problems.clear()
        others.clear()
        assert not problems, "\n".join(problems)
