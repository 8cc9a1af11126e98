"""Requests that a master holds back while it hands over to another replica.

If the hand-over fails, the master serves them in their order. If it succeeds, they are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from litemq.errors import OverloadedError
from litemq.net.frame import Frame
from litemq.net.server import Session
from litemq.proto.wire_pb2 import Opcode

__all__ = ["HeldRequests"]

_MAX_BYTES: Final = 64 << 20
_FRAME_BYTES: Final = 256  # of memory, besides its header and attachment
_RETRY_MS: Final = 100
# Followers go on, and an operator gets an answer.
_NEVER_HELD: Final = frozenset({Opcode.FOLLOW_LOG, Opcode.FETCH_LOG, Opcode.REPORT_LOG, Opcode.SWITCH_MASTER})


class HeldRequests:
    """Holds requests between ``hold`` and ``release``, which passes them to ``serve``."""

    def __init__(self, serve: Callable[[Session, list[Frame]], None]) -> None:
        self._serve = serve
        self._held: dict[Session, list[Frame]] = {}
        self._bytes = 0
        self.is_holding = False

    def hold(self) -> None:
        """Hold the requests that arrive from now on."""
        self.is_holding = True

    def add(self, session: Session, frames: list[Frame]) -> list[Frame]:
        """Hold ``frames``; return those that are to be served at once."""
        passed = []
        for frame in frames:
            size = len(frame.header) + len(frame.attachment) + _FRAME_BYTES
            if frame.opcode in _NEVER_HELD:
                passed.append(frame)
            elif self._bytes + size > _MAX_BYTES:
                session.refuse(frame, OverloadedError("the master hands over to another replica: retry", _RETRY_MS))
            else:
                self._bytes += size
                self._held.setdefault(session, []).append(frame)
        return passed

    def release(self) -> None:
        """Hold no more, and serve what was held, in the order of each session."""
        held, self._held = self._held, {}
        self._bytes, self.is_holding = 0, False
        for session, frames in held.items():
            self._serve(session, frames)

    def caller_gone(self, session: Session) -> None:
        """Drop the requests of ``session``, whose connection has ended."""
        for frame in self._held.pop(session, ()):
            self._bytes -= len(frame.header) + len(frame.attachment) + _FRAME_BYTES
