"""Names of producers' transactions: ``tx:GROUP:NUMBER@BROKER``.

Names of Spark jobs' transactions have four parts separated by ``/``, which these never contain.
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
    "check_transaction",
    "is_producer_transaction",
    "transaction_broker",
    "transaction_group",
    "transaction_name",
]

TRANSACTION_PREFIX: Final = "tx:"
# Properties of a transaction's first message: delay of the first check, and number of checks.
CHECK_AFTER: Final = "litemq-check-after-ms"
MAX_CHECKS: Final = "litemq-max-checks"

_NAME: Final = rf"[A-Za-z0-9_.\-]{{1,{MAX_NAME_BYTES}}}"
_WHOLE: Final = re.compile(rf"tx:{_NAME}:[0-9a-zA-Z\-]{{1,64}}@{_NAME}", re.ASCII)


def transaction_name(group: str, number: str, broker: str) -> str:
    """Return the name of a transaction; ``number`` must be unique."""
    return f"{TRANSACTION_PREFIX}{group}:{number}@{broker}"


def is_producer_transaction(transaction: str) -> bool:
    """Return whether a transaction belongs to a producer rather than a Spark job."""
    return transaction.startswith(TRANSACTION_PREFIX) and "/" not in transaction


def check_transaction(transaction: str) -> str:
    """Return the name of a producer's transaction, or raise if it is invalid."""
    if not _WHOLE.fullmatch(transaction):
        raise InvalidArgumentError(f"transaction {transaction[:80]!r}: use an id such as tx:GROUP:NUMBER@BROKER")
    return transaction


def transaction_group(transaction: str) -> str:
    """Return the producer group of a transaction; empty for a Spark job's."""
    return transaction.split(":", 2)[1] if is_producer_transaction(transaction) else ""


def transaction_broker(transaction: str) -> str:
    """Return the broker that stores a producer's transaction."""
    return check_transaction(transaction).rpartition("@")[2]
