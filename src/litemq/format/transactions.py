"""The names of producers' transactions: they say whose they are, and which broker has them.

``tx:GROUP:NUMBER@BROKER``. The transactions of jobs have four parts with ``/`` between them, which these never have.
"""

from __future__ import annotations

import re
from typing import Final

from litemq.errors import InvalidArgumentError
from litemq.types import MAX_NAME_BYTES

__all__ = [
    "CHECK_AFTER",
    "MAX_CHECKS",
    "TRANSACTION_PREFIX",
    "broker_of",
    "check_transaction",
    "group_of",
    "is_producers",
    "transaction_name",
]

TRANSACTION_PREFIX: Final = "tx:"
# Properties of a transaction's first message: when its producer is asked for the first time, and how often in all.
CHECK_AFTER: Final = "litemq-check-after-ms"
MAX_CHECKS: Final = "litemq-max-checks"

_NAME: Final = rf"[A-Za-z0-9_.\-]{{1,{MAX_NAME_BYTES}}}"
_WHOLE: Final = re.compile(rf"tx:{_NAME}:[0-9a-zA-Z\-]{{1,64}}@{_NAME}", re.ASCII)


def transaction_name(group: str, number: str, broker: str) -> str:
    """The name of a transaction; its number is one that nobody else has."""
    return f"{TRANSACTION_PREFIX}{group}:{number}@{broker}"


def is_producers(transaction: str) -> bool:
    """Whether a transaction is a producer's, and not a job's."""
    return transaction.startswith(TRANSACTION_PREFIX) and "/" not in transaction


def check_transaction(transaction: str) -> str:
    """Return the name of a producer's transaction, or raise with the rule that it breaks."""
    if not _WHOLE.fullmatch(transaction):
        raise InvalidArgumentError(f"transaction {transaction[:80]!r}: an id is tx:GROUP:NUMBER@BROKER, as the client makes it")
    return transaction


def group_of(transaction: str) -> str:
    """The group whose producers can be asked for its outcome; empty where it is a job's."""
    return transaction.split(":", 2)[1] if is_producers(transaction) else ""


def broker_of(transaction: str) -> str:
    """The broker that has it."""
    return check_transaction(transaction).rpartition("@")[2]
