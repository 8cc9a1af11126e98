"""Execution of a transaction: send its message, call the listener, end it as decided."""

from __future__ import annotations

from typing import Any

from litemq.client.messages.outgoing import OutgoingMessage
from litemq.client.transactions.listener import Decision, PreparedMessage, TransactionListener, call_listener
from litemq.client.transactions.transaction import Transaction, TransactionReceipt

__all__ = ["execute_transaction", "send_transaction"]


async def send_transaction(transaction: Transaction, topic: str, message: OutgoingMessage) -> TransactionReceipt:
    """Send ``message`` as the only one of ``transaction``, and leave the outcome open."""
    receipt = await transaction.send_message(message)
    return TransactionReceipt(
        transaction.id, topic, receipt.message_id, receipt.broker, receipt.queue_id, receipt.store_timestamp
    )


async def execute_transaction(
    transaction: Transaction, topic: str, message: OutgoingMessage, listener: TransactionListener, arg: Any
) -> TransactionReceipt:
    """Send ``message``, call ``listener.execute`` with ``arg``, and end as it decides."""
    receipt = await send_transaction(transaction, topic, message)
    decision = await call_listener(
        listener.execute, PreparedMessage(topic, message, receipt.message_id, transaction.id), arg
    )
    if decision is Decision.COMMIT:
        await transaction.commit()
    elif decision is Decision.ROLLBACK:
        await transaction.rollback()
    return receipt._replace(state=transaction.state)
