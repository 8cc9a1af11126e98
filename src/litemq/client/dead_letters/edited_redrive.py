"""A redrive with a transform: the client edits each dead letter and sends a new record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final

from litemq.client.dead_letters.dead_letter import DeadLetter
from litemq.client.engine.dead_letters import DeadLetterEngine, RedriveProgress
from litemq.client.labels import strings
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.client.messages.serializers import CONTENT_TYPE, Serializers
from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.format.record_encode import encode_record
from litemq.types import Record

__all__ = ["EditedRedrive", "Transform", "edited_record"]

# Returns a new body, an OutgoingMessage, the dead letter itself (unchanged), or None (skip it).
Transform = Callable[[DeadLetter], Any | Awaitable[Any]]

_MAX_BATCH: Final = 100
_MAX_BATCH_BYTES: Final = 1 << 20


def edited_record(letter: DeadLetter, change: object, serializers: Serializers, expire_at: int) -> bytes:
    """Encode the record that replaces ``letter``.

    It keeps the message id, the priority, and all that ``change`` does not set.
    """
    message = letter.message
    whole = OutgoingMessage(change, message.tags, message.keys, message.properties)
    outgoing = change if isinstance(change, OutgoingMessage) else whole
    properties = dict(outgoing.properties)
    if change is letter:
        body = message.body
    else:
        body, content_type = serializers.dumps(letter.topic, outgoing.body)
        properties.pop(CONTENT_TYPE, None)
        if content_type:
            properties[CONTENT_TYPE] = content_type
    record = Record(
        letter.topic,
        body,
        message.message_id,
        strings(outgoing.tags, "tags"),
        strings(outgoing.keys, "keys"),
        properties,
        priority=letter.priority,
        born_timestamp=message.born_timestamp,
        expire_at=expire_at,
        sharding_key=outgoing.ordering_key or message.ordering_key,
    )
    return encode_record(record)


class EditedRedrive:
    """The edited redrive of one topic on one broker: a ``RedrivePart``."""

    def __init__(
        self,
        engine: DeadLetterEngine,
        broker: str,
        topic: str,
        dead_letters: AsyncIterator[DeadLetter],
        transform: Transform,
        serializers: Serializers,
        *,
        ttl: float | None,
        messages_per_s: int,
        dry_run: bool,
    ) -> None:
        self._engine = engine
        self._broker = broker
        self._topic = topic
        self._dead_letters = dead_letters
        self._transform = transform
        self._serializers = serializers
        self._ttl = ttl
        self._messages_per_s = messages_per_s
        self._dry_run = dry_run
        self._progress = RedriveProgress("running")
        self._pending: list[tuple[int, bytes]] = []
        self._sending: asyncio.Future[list[bool]] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"litemq redrives {topic}")
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())  # ``follow`` raises it

    async def follow(self, wait_ms: int) -> RedriveProgress:
        if wait_ms:
            await asyncio.wait((self._task,), timeout=wait_ms / 1000)
        if self._task.done() and not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error
        return self._progress

    async def cancel(self) -> RedriveProgress:
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
            if self._sending is not None:  # the request was sent: count its result
                self._settle(await self._sending)
            self._progress = self._progress._replace(state="cancelled")
        return self._progress

    async def _run(self) -> None:
        try:
            async for letter in self._dead_letters:
                self._count(examined=1, selected=1)
                await self._change(letter)
                if (
                    len(self._pending) >= _MAX_BATCH
                    or sum(len(record) for _, record in self._pending) >= _MAX_BATCH_BYTES
                ):
                    await self._send_batch()
            await self._send_batch()
            self._progress = self._progress._replace(state="done", letters=self._progress.examined)
        except Exception as error:
            self._progress = self._progress._replace(state="failed", problem=f"{type(error).__name__}: {error}")
            raise

    def _count(self, **more: int) -> None:
        self._progress = self._progress._replace(
            **{name: getattr(self._progress, name) + number for name, number in more.items()}
        )

    async def _change(self, letter: DeadLetter) -> None:
        change = self._transform(letter)
        if isawaitable(change):
            change = await change
        if change is None:
            self._count(skipped=1)
            return
        expire_at = 0 if self._ttl is None else int((time.time() + self._ttl) * 1000)
        try:
            record = edited_record(letter, change, self._serializers, expire_at)
        except LiteMQError as error:
            raise InvalidArgumentError(
                f"the transform's result for message {letter.message_id} cannot be sent: {error}"
            ) from error
        if not self._dry_run:
            self._pending.append((letter.log_offset, record))

    async def _send_batch(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        log_offsets, records = zip(*pending, strict=True)
        self._sending = asyncio.ensure_future(
            self._engine.redrive_records(self._broker, self._topic, log_offsets, b"".join(records))
        )
        self._settle(await asyncio.shield(self._sending))
        if self._messages_per_s:
            await asyncio.sleep(len(pending) / self._messages_per_s)

    def _settle(self, done: list[bool]) -> None:
        self._sending = None
        self._count(done=sum(done), gone=len(done) - sum(done))
