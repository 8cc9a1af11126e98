"""Executing a transaction: send its message, call the group's listener, and end the transaction as the listener decides."""

from __future__ import annotations

from typing import Any

from litemq.client.messages.outgoing import OutgoingMessage
from litemq.client.transactions.listener import Decision, PreparedMessage, TransactionListener, decided
from litemq.client.transactions.transaction import Transaction, TransactionReceipt

__all__ = ["execute_transaction", "send_transaction"]


async def send_transaction(transaction: Transaction, topic: str, message: OutgoingMessage) -> TransactionReceipt:
    """Send ``message`` as the only one of ``transaction``, and leave the outcome open."""
    receipt = await transaction.send_message(message)
    return TransactionReceipt(transaction.id, topic, receipt.message_id, receipt.broker, receipt.queue_id, receipt.store_timestamp)


async def execute_transaction(
    transaction: Transaction, topic: str, message: OutgoingMessage, listener: TransactionListener, arg: Any
) -> TransactionReceipt:
    """Send ``message``, have ``listener`` execute it with ``arg``, and commit or roll back as it decides."""
    receipt = await send_transaction(transaction, topic, message)
    decision = await decided(listener.execute, PreparedMessage(topic, message, receipt.message_id, transaction.id), arg)
    if decision is Decision.COMMIT:
        await transaction.commit()
    elif decision is Decision.ROLLBACK:
        await transaction.rollback()
    return receipt._replace(state=transaction.state)
