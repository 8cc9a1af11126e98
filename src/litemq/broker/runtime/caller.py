"""Who asks a broker: one connection, whatever carries it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from litemq.errors import LiteMQError
from litemq.net.connection import Bytes
from litemq.net.frame import Frame

__all__ = ["Caller"]


class Caller(Protocol):
    """Takes the answers to its own requests, in any order. Once it has gone, they go nowhere."""

    @property
    def client_id(self) -> str:
        """What the client calls itself."""

    @property
    def peer(self) -> str:
        """Where it is, for people."""

    @property
    def has_room(self) -> bool:
        """Whether it reads what it was answered: if not, nothing large should be added."""

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once there is room again; never, if the caller goes first."""

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"") -> None:
        """Answer a request."""

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        """Answer many sends at once: each is told where its first record went."""

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        """Answer a request with an error."""
