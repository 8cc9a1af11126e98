"""LiteMQ: a message queue for Python teams, whose log is a table for Spark."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litemq.client.async_client import AsyncClient
    from litemq.client.config import ClientConfig
    from litemq.client.dead_letters.dead_letter import DeadLetter
    from litemq.client.engine.timers import CancelOutcome, ScheduledState
    from litemq.client.engine.transactions import TransactionState
    from litemq.client.extensions.middleware import Middleware
    from litemq.client.extensions.plugins import Plugin, PluginHost
    from litemq.client.handlers.breaker import FailureLimits
    from litemq.client.messages.message import Message
    from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
    from litemq.client.settling.ack_policy import AckPolicy
    from litemq.client.settling.retry_policy import Retry, RetryPolicy
    from litemq.client.sync.client import Client
    from litemq.client.timers.scheduled_message import ScheduledMessage
    from litemq.client.transactions.listener import CheckedTransaction, Decision, PreparedMessage, TransactionListener
    from litemq.client.transactions.transaction import Transaction, TransactionReceipt
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
    "PluginHost",
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

# Imported on first use: error classes, the version and the pytest plug-in do not load a client.
_MODULES = {
    "AckPolicy": "litemq.client.settling.ack_policy",
    "AsyncClient": "litemq.client.async_client",
    "CancelOutcome": "litemq.client.engine.timers",
    "Client": "litemq.client.sync.client",
    "ClientConfig": "litemq.client.config",
    "FailureLimits": "litemq.client.handlers.breaker",
    "DeadLetter": "litemq.client.dead_letters.dead_letter",
    "DeadReason": "litemq.types",
    "LiteMQError": "litemq.errors",
    "Message": "litemq.client.messages.message",
    "Middleware": "litemq.client.extensions.middleware",
    "OutgoingMessage": "litemq.client.messages.outgoing",
    "Plugin": "litemq.client.extensions.plugins",
    "PluginHost": "litemq.client.extensions.plugins",
    "Retry": "litemq.client.settling.retry_policy",
    "RetryPolicy": "litemq.client.settling.retry_policy",
    "ScheduledMessage": "litemq.client.timers.scheduled_message",
    "ScheduledState": "litemq.client.engine.timers",
    "SendReceipt": "litemq.client.messages.outgoing",
    "CheckedTransaction": "litemq.client.transactions.listener",
    "Decision": "litemq.client.transactions.listener",
    "PreparedMessage": "litemq.client.transactions.listener",
    "Transaction": "litemq.client.transactions.transaction",
    "TransactionListener": "litemq.client.transactions.listener",
    "TransactionReceipt": "litemq.client.transactions.transaction",
    "TransactionState": "litemq.client.engine.transactions",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
