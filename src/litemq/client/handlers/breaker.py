"""The breaker of one handler: when most of its calls fail, no more messages are taken for a while, and then one. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from litemq.errors import InvalidArgumentError

__all__ = ["BreakerTurn", "FailureLimits", "HandlerBreaker", "HandlerState"]


class HandlerState(Enum):
    """Running: messages are handled. Paused: none is taken. Probing: one, which decides."""

    RUNNING = "running"
    PAUSED = "paused"
    PROBING = "probing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLimits:
    """When a handler is paused, and for how long; durations in seconds."""

    failure_share: float = 0.8  # more than this
    window: float = 60.0
    least_calls: int = 10  # fewer say nothing
    pause: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.failure_share < 1:
            raise InvalidArgumentError(f"failure_share={self.failure_share!r}: choose a share from 0 to below 1")
        if self.window <= 0 or self.pause <= 0 or self.least_calls < 1:
            raise InvalidArgumentError(
                f"window={self.window!r}, pause={self.pause!r}, least_calls={self.least_calls!r}: choose more than 0 for each"
            )


BreakerTurn = int  # which stretch of one state a call began in; what ends in another one says nothing about it


class HandlerBreaker:
    """Is told when calls begin and how they end, and says when the next may begin. ``now`` is any clock that never falls, in seconds."""

    __slots__ = ("_began", "_calls", "_failures", "_limits", "_paused_at", "_probing", "_turn", "state")

    def __init__(self, limits: FailureLimits | None = None) -> None:
        self._limits = limits or FailureLimits()
        self.state = HandlerState.RUNNING
        self._turn: BreakerTurn = 0
        self._paused_at = 0.0
        self._probing = False
        self._count_from(0.0)

    def _count_from(self, now: float) -> None:
        self._began, self._calls, self._failures = now, 0, 0

    def wait(self, now: float) -> float | None:
        """Seconds until a call may begin: 0 for now, ``None`` while the probe runs, whose end decides."""
        if self.state is HandlerState.PAUSED:
            left = self._paused_at + self._limits.pause - now
            if left > 0:
                return left
            self._enter(HandlerState.PROBING)
        return None if self._probing else 0.0

    def begin(self) -> BreakerTurn:
        """A call begins, which ``wait`` allowed."""
        self._probing = self.state is HandlerState.PROBING
        return self._turn

    def succeeded(self, turn: BreakerTurn, now: float) -> None:
        """A call did what it should."""
        if turn == self._turn:
            if self.state is HandlerState.PROBING:
                self._enter(HandlerState.RUNNING)
                self._count_from(now)
            self._count(now)

    def failed(self, turn: BreakerTurn, now: float) -> None:
        """A call failed, and it was not the message's fault."""
        if turn != self._turn or self.state is HandlerState.PAUSED:
            return
        self._count(now)
        self._failures += 1
        enough = self._calls >= self._limits.least_calls and self._failures > self._calls * self._limits.failure_share
        if self.state is HandlerState.PROBING or enough:
            self._paused_at = now
            self._enter(HandlerState.PAUSED)

    def forget(self, turn: BreakerTurn) -> None:
        """A call ended without saying anything about the handler: if it was the probe, the next one is."""
        if turn == self._turn:
            self._probing = False

    def _count(self, now: float) -> None:
        if now - self._began > self._limits.window:
            self._count_from(now)
        self._calls += 1

    def _enter(self, state: HandlerState) -> None:
        self.state, self._probing = state, False
        self._turn += 1
