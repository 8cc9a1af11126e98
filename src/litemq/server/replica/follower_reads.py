"""The reads that clients choose to send to a follower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from litemq.broker.read_only import ReadOnlyBroker
from litemq.broker.runtime.handlers import Handler
from litemq.clock import Clock
from litemq.net.server import Session
from litemq.server.broker_config import BrokerConfig
from litemq.server.broker_setup import broker_limits
from litemq.server.replica.directory import ReplicaDirectory

__all__ = ["FollowerReads"]


class FollowerReads:
    """Serves reads while the store of ``directory`` is open and follows.

    The broker for them is made for the first request, and again after each ``close``.
    """

    def __init__(self, directory: ReplicaDirectory, config: BrokerConfig, clock: Clock) -> None:
        self._directory = directory
        self._limits = broker_limits(config)
        self._clock = clock
        self._broker: ReadOnlyBroker | None = None
        self._is_paused = False

    @staticmethod
    def are_wanted(session: Session) -> bool:
        """Return whether the client of ``session`` reads from replicas."""
        return session.hello is not None and session.hello.reads_replica

    def handler(self, session: Session, opcode: int) -> Handler | None:
        """Return the handler of a request, if it is a read of a client that reads from replicas."""
        if not self.are_wanted(session):
            return None
        store = self._directory.store
        if self._broker is None and store is not None and store.follows and not self._is_paused:
            self._broker = ReadOnlyBroker(store, self._clock, self._limits)
        return self._broker.handlers.get(opcode) if self._broker is not None else None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Serve no reads meanwhile: the store is opened again."""
        self._is_paused = True
        self.close()
        try:
            yield
        finally:
            self._is_paused = False

    def caller_gone(self, session: Session) -> None:
        """A connection has ended."""
        if self._broker is not None:
            self._broker.caller_gone(session)

    def close(self) -> None:
        """Answer all waiting reads."""
        if self._broker is not None:
            broker, self._broker = self._broker, None
            broker.close()
