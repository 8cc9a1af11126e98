"""A caller whose answers are traced: the messages that it receives for a group, and those that it
settles.

The broker's capabilities do not know of the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.request_header import parse
from litemq.broker.tracing.recorder import TraceRecorder
from litemq.errors import LiteMQError
from litemq.format.offset_runs import unpack_runs
from litemq.net.connection import Bytes
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import CommitRequest, LeaseRequest, Opcode, PullRequest, SettleAnswer, SettleRequest
from litemq.storage.state import QueueKey, retry_topic
from litemq.storage.store import Store

__all__ = ["TracedCaller", "TracedCallers"]

_TRACED_OPCODES: Final = frozenset(map(int, (Opcode.PULL, Opcode.LEASE, Opcode.SETTLE, Opcode.COMMIT_OFFSETS)))


class TracedCaller:
    """Wraps a caller, and passes its answers on."""

    def __init__(self, caller: Caller, recorder: TraceRecorder, store: Store) -> None:
        self._caller = caller
        self._recorder = recorder
        self._store = store
        self.answer_sent = caller.answer_sent  # the recorder reads sent messages from the queues

    @property
    def client_id(self) -> str:
        return self._caller.client_id

    @property
    def peer(self) -> str:
        return self._caller.peer

    @property
    def is_writable(self) -> bool:
        return self._caller.is_writable

    def on_writable(self, resume: Callable[[], None]) -> None:
        self._caller.on_writable(resume)

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        self._caller.refuse(frame, error)

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"", *, more: bool = False) -> None:
        """Answer, and trace the answer."""
        self._caller.answer(frame, header, attachment, more=more)
        if frame[1] not in _TRACED_OPCODES:
            return
        match frame[1]:
            case Opcode.PULL if attachment:
                pull = parse(PullRequest, frame[3])
                key = self._key(pull.topic, pull.group, pull.queue_id, is_retry=pull.is_retry)
                if pull.group and key is not None:
                    self._recorder.on_begin(pull.group, key, pull.offset)
                    self._recorder.on_received(pull.group, self.client_id, attachment)
            case Opcode.LEASE if attachment:
                self._recorder.on_received(parse(LeaseRequest, frame[3]).group, self.client_id, attachment)
            case Opcode.SETTLE:
                self._trace_settled(parse(SettleRequest, frame[3]), SettleAnswer.FromString(header))
            case Opcode.COMMIT_OFFSETS:
                request = parse(CommitRequest, frame[3])
                for offset in request.offsets:
                    key = self._key(request.topic, request.group, offset.queue_id, is_retry=offset.is_retry)
                    if key is not None:
                        self._recorder.on_committed(request.group, self.client_id, key, offset.offset)

    def _trace_settled(self, request: SettleRequest, answer: SettleAnswer) -> None:
        lost = {(one.queue_id, one.is_retry, one.offset) for one in answer.unsettled}
        for leased in request.acked:
            key = self._key(request.topic, request.group, leased.queue_id, is_retry=leased.is_retry)
            if key is None or not leased.token:
                continue
            for begin, end in unpack_runs(leased.offsets):
                kept = (
                    [at for at in range(begin, end) if (leased.queue_id, leased.is_retry, at) not in lost]
                    if lost
                    else None
                )
                if kept is None:
                    self._recorder.on_settled(request.group, self.client_id, key, begin, end, "acked")
                else:
                    for at in kept:
                        self._recorder.on_settled(request.group, self.client_id, key, at, at + 1, "acked")
        for failed in request.failed:
            key = self._key(request.topic, request.group, failed.queue_id, is_retry=failed.is_retry)
            if key is not None and (failed.queue_id, failed.is_retry, failed.offset) not in lost:
                what = "rejected" if failed.is_final else "failed" if failed.error or failed.delay_ms else "released"
                self._recorder.on_settled(
                    request.group, self.client_id, key, failed.offset, failed.offset + 1, what, failed.error
                )

    def _key(self, topic: str, group: str, queue_id: int, *, is_retry: bool) -> QueueKey | None:
        state = self._store.state
        known, retries = state.topic(topic), state.topic(retry_topic(group))
        if known is None or (is_retry and retries is None):
            return None
        return (
            QueueKey(retries.topic_id, known.topic_id)
            if is_retry and retries is not None
            else QueueKey(known.topic_id, queue_id)
        )


class TracedCallers:
    """The wrapper of each caller: always the same, since the broker identifies callers by it."""

    def __init__(self, recorder: TraceRecorder, store: Store) -> None:
        self._recorder = recorder
        self._store = store
        self._callers: dict[Caller, TracedCaller] = {}

    def wrap(self, caller: Caller) -> TracedCaller:
        """Return the wrapper of ``caller``."""
        traced = self._callers.get(caller)
        if traced is None:
            traced = self._callers[caller] = TracedCaller(caller, self._recorder, self._store)
        return traced

    def caller_gone(self, caller: Caller) -> Caller:
        """Drop the wrapper of ``caller``, whose connection has ended; return it."""
        return self._callers.pop(caller, None) or caller
