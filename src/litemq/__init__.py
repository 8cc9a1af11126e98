"""LiteMQ: a message queue for Python teams, whose log is a table for Spark."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litemq.client.ack_policy import AckPolicy
    from litemq.client.async_client import AsyncClient
    from litemq.client.client import Client
    from litemq.client.config import ClientConfig
    from litemq.client.dead_letter import DeadLetter
    from litemq.client.handler_breaker import FailureLimits
    from litemq.client.messages import Message, OutgoingMessage, SendReceipt
    from litemq.client.middleware import Middleware
    from litemq.client.plugins import Plugin
    from litemq.client.retry_policy import Retry, RetryPolicy
    from litemq.client.scheduled_message import ScheduledMessage
    from litemq.client.timer_backend import CancelOutcome, ScheduledState
    from litemq.client.transaction import Transaction, TransactionReceipt
    from litemq.client.transaction_backend import TransactionState
    from litemq.client.transaction_listener import CheckedTransaction, Decision, PreparedMessage, TransactionListener
    from litemq.errors import LiteMQError
    from litemq.types import DeadReason

__version__ = "0.1.0"

__all__ = [
    "AckPolicy",
    "AsyncClient",
    "CancelOutcome",
    "CheckedTransaction",
    "Client",
    "ClientConfig",
    "DeadLetter",
    "DeadReason",
    "Decision",
    "FailureLimits",
    "LiteMQError",
    "Message",
    "Middleware",
    "OutgoingMessage",
    "Plugin",
    "PreparedMessage",
    "Retry",
    "RetryPolicy",
    "ScheduledMessage",
    "ScheduledState",
    "SendReceipt",
    "Transaction",
    "TransactionListener",
    "TransactionReceipt",
    "TransactionState",
    "__version__",
]

# Imported when they are first used: whoever wants an error class, the version or the plugin for pytest does not pay for a client.
_PLACES = {
    "AckPolicy": "litemq.client.ack_policy",
    "AsyncClient": "litemq.client.async_client",
    "CancelOutcome": "litemq.client.timer_backend",
    "Client": "litemq.client.client",
    "ClientConfig": "litemq.client.config",
    "FailureLimits": "litemq.client.handler_breaker",
    "DeadLetter": "litemq.client.dead_letter",
    "DeadReason": "litemq.types",
    "LiteMQError": "litemq.errors",
    "Message": "litemq.client.messages",
    "Middleware": "litemq.client.middleware",
    "OutgoingMessage": "litemq.client.messages",
    "Plugin": "litemq.client.plugins",
    "Retry": "litemq.client.retry_policy",
    "RetryPolicy": "litemq.client.retry_policy",
    "ScheduledMessage": "litemq.client.scheduled_message",
    "ScheduledState": "litemq.client.timer_backend",
    "SendReceipt": "litemq.client.messages",
    "CheckedTransaction": "litemq.client.transaction_listener",
    "Decision": "litemq.client.transaction_listener",
    "PreparedMessage": "litemq.client.transaction_listener",
    "Transaction": "litemq.client.transaction",
    "TransactionListener": "litemq.client.transaction_listener",
    "TransactionReceipt": "litemq.client.transaction",
    "TransactionState": "litemq.client.transaction_backend",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(place), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
