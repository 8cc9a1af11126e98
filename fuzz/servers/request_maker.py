"""Requests from a fuzzer's input: any message of the schema, filled by its descriptor.

Most strings are names that exist, and many numbers come from earlier answers: tokens, sessions,
generations, offsets. Otherwise nearly all requests would be refused for an unknown name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast

from fuzz.servers.choices import Choices
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from litemq.clock import Clock
from litemq.errors import InvalidArgumentError
from litemq.format.record_encode import encode_record
from litemq.format.timer_batches import BATCH_ID
from litemq.format.transactions import CHECK_AFTER, MAX_CHECKS
from litemq.storage.state.transactions.halves import sink_transaction
from litemq.types import Durability, MessageType, Record

__all__ = ["RequestMaker"]

_MAX_DEPTH: Final = 4
_MAX_REMEMBERED: Final = 6  # of one field
_COUNTS: Final = (0, 1, 1, 1, 2, 2, 3, 40)
_SPANS_MS: Final = (0, 1, 10, 1_000, 5_000, 60_000, 3_600_000, 86_400_000, -1, -5_000, -86_400_000)
_ABSENT: Final = 40  # of 256

TRANSACTIONS: Final = ("tx:shop:1@here", "tx:shop:2@here", "tx:audit:3@here")
# The values of strings, by the name of their field without a plural's s.
_WORDS: Final[dict[str, Sequence[str]]] = {
    "topic": ("orders", "orders", "ranked", "other", "missing", "%DLQ%orders", "%RETRY%shop", "LITEMQ_SYS_TRACE"),
    "group": ("shop", "audit", "", "jobs"),
    "member": ("m1", "m2", ""),
    "strategy": ("average", "consistent_hash", "same_zone", ""),
    "zone": ("a", "b", ""),
    "filter": (
        "",
        "a || b",
        "p = 'q'",
        "*",
        "n > 3 AND p IS NOT NULL",
        "NOT (p IN ('q', 'r') OR n BETWEEN 1 AND 9)",
        "p LIKE '%q_'",
        "n = 1 +",
    ),
    "to": ("earliest", "latest", "timestamp", "offset", "shift"),
    "reset_id": ("r1", "r2", ""),
    "undo_id": ("u1", "u2", ""),
    "undoe": ("r1",),
    "transaction": TRANSACTIONS,
    "query": ("q", "stream", "q/1"),
    "message_id": ("m-0", "m-9", "m-1", "m-2", "m-3", ""),
    "key": ("k", "m-0", ""),
    "tag": ("a", "b"),
    "batch_id": ("batch-1", "batch-2", ""),
    "id": ("job-1", "job-2", ""),
    "trigger_id": ("t1", "t2", ""),
    "prefix": ("job", ""),
    "expression": ("* * * * *", "*/5 * * * * *", "0 9 * * 1-5", "0 0 29 2 *", "61 * * * *", "@daily", ""),
    "timezone": ("", "UTC", "Europe/Berlin", "America/New_York", "Mars/Olympus"),
    "ordering_key": ("o", ""),
    "location": ("/table", "s3://bucket/table", ""),
    "name": ("b1", "b2", "b3", "litemq-timeout-ms", ""),
    "host": ("127.0.0.1", "h1", "h2", "0.0.0.0", "::1"),  # noqa: S104  an address that is refused
    "after": ("", *TRANSACTIONS),
    "detail": ("undecodable", "timeout", ""),
    "client_id": ("c1", ""),
    "value": ("1", "x"),
    "fingerprint": ("",),
}
# Usual values of numbers; fields that are in neither table are small.
_NUMBERS: Final[dict[str, Sequence[int]]] = {
    "queue_id": (0, 0, 1, 2, 3),
    "max_message": (1, 10, 100),
    "max_byte": (1_000, 65_536),
    "wait_m": (0, 100, 5_000),
    "lease_m": (10, 1_000, 60_000),
    "max_retrie": (3, 0, 1),
    "most": (1, 10, 100),
    "session_timeout_m": (0, 100, 5_000),
    "delay_m": (0, 10, 1_000),
    "every_m": (1_000, 60_000, 3_600_000),
    "ttl_m": (0, 1_000, 60_000),
    "offset": (0, 1, 2, 3),
    "port": (1, 9875),
    "least_version": (1,),
    "most_version": (1,),
}
_TIMES: Final = {
    "due",
    "since",
    "until",
    "value",
    "store_timestamp",
    "start_at",
    "end_at",
    "after_due",
    "stored_before",
}
_INTEGERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


class RequestMaker:
    """Makes headers and attachments. Values of answers that it has seen return in requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, deque[Any]] = {}
        self._last_texts: dict[str, str] = {}  # by field, of the last request with usual values
        self._records: deque[bytes] = deque(maxlen=4)

    def remember(self, answer: Message, attachment: bytes) -> None:
        """Note the values of an answer, to use them in later requests."""
        if attachment:
            self._records.append(attachment[:65_536])
        self._remember_fields(answer)

    def prefer(self, **texts: str) -> None:
        """Use ``texts``, by the names of fields, in most requests until others are chosen."""
        self._last_texts = dict(texts)

    def last(self, name: str) -> Any:
        """Return the last value of field ``name`` in an answer."""
        return self._known[name][-1]

    def _remember_fields(self, message: Message) -> None:
        for field, value in message.ListFields():
            for each in list(value)[:_MAX_REMEMBERED] if field.is_repeated else [value]:
                if isinstance(each, Message):
                    self._remember_fields(each)
                elif not isinstance(each, bool) and (not isinstance(each, str) or len(each) < 300):
                    self._known.setdefault(_singular(field.name), deque(maxlen=_MAX_REMEMBERED)).append(each)

    def fill(self, message: Message, choices: Choices, *, is_usual: bool = False, depth: int = 0) -> None:
        """Set fields of ``message``, as the input decides; if ``is_usual``, to usual values."""
        for field in cast("list[FieldDescriptor]", message.DESCRIPTOR.fields):
            if choices.byte() < _ABSENT // (1 + is_usual):
                continue
            if field.is_repeated:
                values = getattr(message, field.name)
                for _ in range(choices.pick(_COUNTS)):
                    if field.message_type is None:
                        values.append(self._value(field, choices, is_usual))
                    elif depth < _MAX_DEPTH:
                        self.fill(values.add(), choices, is_usual=is_usual, depth=depth + 1)
            elif field.message_type is None:
                setattr(message, field.name, self._value(field, choices, is_usual))
            elif depth < _MAX_DEPTH:
                child = getattr(message, field.name)
                child.SetInParent()
                self.fill(child, choices, is_usual=is_usual, depth=depth + 1)

    def _value(self, field: FieldDescriptor, choices: Choices, is_usual: bool) -> Any:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                if is_usual and field.name == "store_id":
                    return bytes([choices.byte() % 3]) * 16
                return choices.raw(choices.byte())
            name = _singular(field.name)
            return self._usual_text(name, choices) if is_usual else self._text(name, choices)
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return choices.byte() % (4 if is_usual else 2) == 1
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return 1 + choices.byte() % 3 if is_usual else choices.byte() % 9
        least, most = _INTEGERS[field.cpp_type]
        name = _singular(field.name)
        number = self._usual_number(name, choices) if is_usual else self._number(name, choices, least, most)
        return min(max(number, least), most)

    def _usual_text(self, name: str, choices: Choices) -> str:
        how = choices.byte()
        known, words = self._known.get(name), _WORDS.get(name, ("",))
        if how < 160 and name in self._last_texts:
            return self._last_texts[name]
        if known and (how >= 224 or name not in _WORDS):
            return str(known[how % len(known)])
        self._last_texts[name] = text = words[how % min(3, len(words))]
        return text

    def _usual_number(self, name: str, choices: Choices) -> int:
        how = choices.byte()
        known = [each for each in self._known.get(name, ()) if isinstance(each, int)]
        if name in _TIMES:
            span = _SPANS_MS[how % len(_SPANS_MS)]
            return self._clock.wall_ms() + (-abs(span) if name == "since" else span)
        if name in _NUMBERS and (how < 192 or not known):
            return _NUMBERS[name][how % len(_NUMBERS[name])]
        return known[-1 - how % len(known)] if known and how < 224 else how % 4

    def _text(self, name: str, choices: Choices) -> str:
        how = choices.byte()
        if how < 160 and name in _WORDS:
            return choices.pick(_WORDS[name])
        if how < 200 and name in self._known:
            return str(choices.pick(self._known[name]))
        if how < 240:
            return choices.raw(choices.byte() % 32).decode("utf-8", "replace")
        return chr(choices.byte() + 32) * choices.integer(2)

    def _number(self, name: str, choices: Choices, least: int, most: int) -> int:
        how = choices.byte() % 16
        known = [each for each in self._known.get(name, ()) if isinstance(each, int)]
        if how < 6 and known:
            return choices.pick(known)
        if how < 10:
            return choices.byte() % 8
        if how < 12:
            return choices.pick(_SPANS_MS)
        if how == 12:
            return self._clock.wall_ms() + choices.pick(_SPANS_MS)
        if how == 13:
            return choices.pick((least, most, most // 2, -1, 1 << 31, 1 << 40))
        return choices.integer(2 if how == 14 else 8)

    def records(self, request: Message, choices: Choices) -> bytes:
        """Make the records of a request: valid ones, those of an earlier answer, or any bytes."""
        how = choices.byte()
        if how < 24:
            return choices.raw(choices.byte())
        if how < 48 and self._records:
            return choices.pick(self._records)
        data = b"".join(self._record(request, choices) for _ in range(max(1, choices.pick(_COUNTS))))
        if how >= 240 and data:
            at = choices.integer(2) % len(data)
            data = data[:at] + bytes([choices.byte()]) + data[at + 1 :]
        return data

    def _record(self, request: Message, choices: Choices) -> bytes:
        now = self._clock.wall_ms()
        topic = getattr(request, "topic", "") or "orders"
        flags = choices.byte()
        record = Record(
            topic if flags & 1 or flags < 128 else choices.pick(_WORDS["topic"]),
            choices.raw(choices.byte() % 16),
            choices.pick(_WORDS["message_id"]),
            tags=("a", "b")[: choices.byte() % 3],
            keys=("k",) if flags & 2 else (),
            properties=_properties(choices) if flags & 4 else {},
            type=_message_type(request, choices),
            priority=choices.byte() if flags & 8 else 128,
            reliability=choices.pick((*Durability, Durability.DISK, Durability.MEMORY)),
            born_timestamp=now,
            delay_time=max(0, now + choices.pick(_SPANS_MS)) if flags & 16 else 0,
            expire_at=max(0, now + choices.pick(_SPANS_MS)) if flags & 32 else 0,
            producer_id=choices.byte() % 3,
            sequence=choices.byte() % 6,
            transaction_id=_transaction(request, choices),
        )
        try:
            return encode_record(record)
        except InvalidArgumentError:
            return b""


def _properties(choices: Choices) -> dict[str, str]:
    number = str(choices.byte())
    return choices.pick(
        (
            {"p": "q", "n": number},
            {BATCH_ID: choices.pick(_WORDS["batch_id"])},
            {CHECK_AFTER: number, MAX_CHECKS: str(choices.byte() % 4)},
            {choices.raw(6).decode("utf-8", "replace"): "x", CHECK_AFTER: "-1", MAX_CHECKS: "many"},
        )
    )


def _message_type(request: Message, choices: Choices) -> MessageType:
    """Return the type that messages of ``request`` have, in few cases any."""
    how = choices.byte()
    if how >= 224:
        return MessageType(how % len(MessageType))
    return MessageType.TRANSACTION if type(request).__name__ == "SendHalfRequest" else MessageType.NORMAL


def _transaction(request: Message, choices: Choices) -> str:
    """Return the transaction that records of ``request`` need, or another."""
    name = type(request).__name__
    how = choices.byte()
    if how >= 232:
        return choices.raw(choices.byte() % 24).decode("utf-8", "replace")
    if name == "SendHalvesRequest":
        attempt: Any = request.attempt  # type: ignore[attr-defined]
        return sink_transaction(attempt.query, attempt.batch, attempt.partition, attempt.attempt)
    return TRANSACTIONS[how % 3] if name == "SendHalfRequest" else ""


def _singular(name: str) -> str:
    return name.removesuffix("s")
