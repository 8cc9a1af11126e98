"""The caller of a request: one connection, over a socket or within the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from litemq.errors import LiteMQError
from litemq.net.connection import Bytes
from litemq.net.frame import Frame

__all__ = ["Caller"]


class Caller(Protocol):
    """Takes the answers to its requests, in any order.

    After its connection has ended, it drops them.
    """

    @property
    def client_id(self) -> str:
        """The name that the client gave itself."""

    @property
    def peer(self) -> str:
        """The address of the client, for people."""

    @property
    def has_room(self) -> bool:
        """Whether the client reads its answers. If not, add no large ones."""

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when the client reads its answers again, unless its connection ends."""

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"") -> None:
        """Answer a request."""

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        """Answer many sends at once, each with the queue offset of its first record."""

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        """Answer a request with an error."""
