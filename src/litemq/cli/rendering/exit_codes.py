"""Exit codes of the command. They are a contract: scripts rely on them."""

from __future__ import annotations

from typing import Final

from litemq.errors import (
    AddressInUseError,
    BacklogFullError,
    DiskFullError,
    GroupNotFoundError,
    InvalidArgumentError,
    JobNotFoundError,
    LiteMQError,
    NetworkError,
    NoRouteError,
    OverloadedError,
    PartialAnswerError,
    ResetNotFoundError,
    SendOutcomeUnknownError,
    StoreLockedError,
    TimerNotFoundError,
    TopicNotFoundError,
    TransactionNotFoundError,
)

__all__ = ["EXIT_CODES", "EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_NOT_FOUND", "EXIT_PARTIAL", "EXIT_USAGE", "exit_code"]

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_FOUND: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_IN_USE: Final = 5
EXIT_UNKNOWN: Final = 6
EXIT_LATER: Final = 7
EXIT_PARTIAL: Final = 8
EXIT_INTERRUPTED: Final = 130

# In the order of the reference.
EXIT_CODES: Final = {
    0: "success; also when Ctrl-C or SIGTERM stops a server, `litemq up` or a followed tail, "
    "or SIGHUP stops a server or `litemq up`",
    EXIT_FAILED: "failure (standard error has the reason), a missed benchmark goal, or a command that needs `--yes`",
    EXIT_USAGE: "wrong usage: an invalid option, argument or setting",
    EXIT_NOT_FOUND: "the topic, group, reset, message, job or transaction does not exist",
    EXIT_UNREACHABLE: "no NameServer or broker is reachable",
    EXIT_IN_USE: "the data directory or port is in use by `litemq up`, a broker or another program",
    EXIT_UNKNOWN: "unknown whether the message was stored",
    EXIT_LATER: "rejected because of load, a quota, a full backlog or a full disk: retry later",
    EXIT_PARTIAL: "incomplete: a broker did not answer (standard error names it); the output or the change covers "
    "the others. Of `cluster status`, also: a replica is missing or not in sync, or a group has no master",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C; for a server, by the second Ctrl-C, which stops it immediately",
}

_BY_CLASS: Final[tuple[tuple[type[LiteMQError], int], ...]] = (
    (ResetNotFoundError, EXIT_NOT_FOUND),  # before InvalidArgumentError, its base class
    (InvalidArgumentError, EXIT_USAGE),
    (AddressInUseError, EXIT_IN_USE),  # before NetworkError, its base class
    (TopicNotFoundError, EXIT_NOT_FOUND),
    (GroupNotFoundError, EXIT_NOT_FOUND),
    (JobNotFoundError, EXIT_NOT_FOUND),
    (TimerNotFoundError, EXIT_NOT_FOUND),
    (TransactionNotFoundError, EXIT_NOT_FOUND),
    (NetworkError, EXIT_UNREACHABLE),
    (NoRouteError, EXIT_UNREACHABLE),
    (StoreLockedError, EXIT_IN_USE),
    (SendOutcomeUnknownError, EXIT_UNKNOWN),
    (OverloadedError, EXIT_LATER),
    (BacklogFullError, EXIT_LATER),
    (DiskFullError, EXIT_LATER),
    (PartialAnswerError, EXIT_PARTIAL),
)


def exit_code(error: type[LiteMQError]) -> int:
    """Return the exit code of a command that fails with ``error``."""
    return next((code for base, code in _BY_CLASS if issubclass(error, base)), EXIT_FAILED)
