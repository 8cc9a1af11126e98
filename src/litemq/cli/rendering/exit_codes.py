"""The exit codes, which scripts rely on."""

from __future__ import annotations

from typing import Final

from litemq.errors import (
    AddressInUseError,
    InvalidArgumentError,
    JobNotFoundError,
    LiteMQError,
    NetworkError,
    NoRouteError,
    OverloadedError,
    SendOutcomeUnknownError,
    StoreLockedError,
    TimerNotFoundError,
    TopicNotFoundError,
    TransactionNotFoundError,
)

__all__ = ["EXIT_CODES", "EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_NOT_FOUND", "EXIT_USAGE", "exit_code"]

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_FOUND: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_IN_USE: Final = 5
EXIT_UNKNOWN: Final = 6
EXIT_LATER: Final = 7
EXIT_INTERRUPTED: Final = 130

# In the order of the reference.
EXIT_CODES: Final = {
    0: "done; also a server, `litemq up` or a tail that follows, stopped by Ctrl-C or SIGTERM; a server and `litemq up` also by SIGHUP",
    EXIT_FAILED: "failed, or a goal was missed; the last line on standard error says why",
    EXIT_USAGE: "wrong usage: a flag, an argument or a setting",
    EXIT_NOT_FOUND: "there is no such topic, message, job or transaction",
    EXIT_UNREACHABLE: "no NameServer or broker can be reached",
    EXIT_IN_USE: "the data directory or the port is in use: `litemq up`, a broker or another program runs there already",
    EXIT_UNKNOWN: "whether the message was stored is not known",
    EXIT_LATER: "refused for now, by load or by quota: try again later",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C; for a server, by the second one, which does not wait",
}

_BY_CLASS: Final[tuple[tuple[type[LiteMQError], int], ...]] = (
    (InvalidArgumentError, EXIT_USAGE),
    (AddressInUseError, EXIT_IN_USE),  # before the others of the network
    (TopicNotFoundError, EXIT_NOT_FOUND),
    (JobNotFoundError, EXIT_NOT_FOUND),
    (TimerNotFoundError, EXIT_NOT_FOUND),
    (TransactionNotFoundError, EXIT_NOT_FOUND),
    (NetworkError, EXIT_UNREACHABLE),
    (NoRouteError, EXIT_UNREACHABLE),
    (StoreLockedError, EXIT_IN_USE),
    (SendOutcomeUnknownError, EXIT_UNKNOWN),
    (OverloadedError, EXIT_LATER),
)


def exit_code(error: type[LiteMQError]) -> int:
    """What a command exits with that fails with such an error."""
    return next((code for base, code in _BY_CLASS if issubclass(error, base)), EXIT_FAILED)
