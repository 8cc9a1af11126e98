"""The caller of a request: one connection, over a socket or within the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from litemq.errors import LiteMQError
from litemq.net.connection import Bytes
from litemq.net.frame import Frame

__all__ = ["Caller"]


class Caller(Protocol):
    """A connection that sends requests and takes their answers, in any order.

    After the connection has ended, it drops answers.
    """

    @property
    def client_id(self) -> str:
        """The client's name, chosen by the client."""

    @property
    def peer(self) -> str:
        """The address of the client, for logs and lists."""

    @property
    def is_writable(self) -> bool:
        """Whether the client reads its answers. If not, add no large ones."""

    def on_writable(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when the client reads its answers again, unless its connection ends."""

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"", *, more: bool = False) -> None:
        """Answer a request. If ``more``, further parts of the answer follow."""

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        """Answer many sends at once, each with the queue offset of its first record."""

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        """Answer a request with an error."""
