"""Output of messages: a line for people, a mapping for programs."""

from __future__ import annotations

import datetime as dt
import json
import sys
from typing import TYPE_CHECKING

from litemq.cli.rendering.output import OutputFormat, plain, write_value

if TYPE_CHECKING:
    from litemq import Message, SendReceipt

__all__ = ["as_value", "body_as_value", "format_time", "receipt_as_value", "write_message"]


def as_value(message: Message) -> dict[str, object]:
    """Return all fields of ``message`` for JSON and YAML. See ``body_as_value`` for the body."""
    return {
        "topic": message.topic,
        "message_id": message.message_id,
        "broker": message.broker,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "stored_at": format_time(message.store_timestamp),
        "tags": list(message.tags),
        "keys": list(message.keys),
        "properties": dict(message.properties),
        "ordering_key": message.ordering_key,
        **body_as_value(message.body),
        "body_bytes": len(message.body),
    }


def receipt_as_value(receipt: SendReceipt) -> dict[str, object]:
    """Return where a message was stored; unknown values are ``None``."""
    known = receipt.queue_offset >= 0
    return {
        "topic": receipt.topic,
        "message_id": receipt.message_id,
        "broker": receipt.broker,
        "queue": receipt.queue_id,
        "offset": receipt.queue_offset if known else None,
        "stored_at": format_time(receipt.store_timestamp) if known else None,
    }


def body_as_value(body: bytes) -> dict[str, object]:
    """Return ``body`` for JSON and YAML: as text, or in hexadecimal digits if it is not UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": None, "body_hex": body.hex()}


def write_message(message: Message, output: OutputFormat) -> None:
    """Print one message of a stream as a line of text or JSON, or as a YAML document, and flush."""
    if output is OutputFormat.TABLE:
        marks = "".join(
            f" {name}={plain(','.join(values))}"
            for name, values in (("key", message.keys), ("tag", message.tags))
            if values
        )
        position = f"{message.queue_id}/{message.queue_offset}"
        sys.stdout.write(f"{format_time(message.store_timestamp)} {position}{marks} {plain(_text(message), 1000)}\n")
    elif output is OutputFormat.JSON:
        sys.stdout.write(json.dumps(as_value(message), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("---\n")
        write_value(as_value(message), output)
    sys.stdout.flush()


def _text(message: Message) -> str | bytes:
    """Return the body of a message; for a dead letter, its history."""
    from litemq.format.dead_letters import DEAD_PREFIX, history_from_properties

    if not message.topic.startswith(DEAD_PREFIX):
        return message.body
    history = history_from_properties(message.properties)
    reason = history.reason.name.lower().replace("_", "-") + (f" ({history.detail})" if history.detail else "")
    return f"{message.message_id} {reason} for {history.group or 'no group'}: {history.error}"


def format_time(milliseconds: int) -> str:
    """Format Unix milliseconds as ISO 8601 in UTC."""
    return (
        dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
