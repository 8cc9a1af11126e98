"""Requests that a master holds back while it hands over."""

from __future__ import annotations

from typing import cast

import pytest

from litemq.errors import LiteMQError, OverloadedError
from litemq.net.frame import Frame
from litemq.net.server import Session
from litemq.proto.wire_pb2 import Opcode
from litemq.server.replica import held_requests
from litemq.server.replica.held_requests import HeldRequests


class _Session:
    def __init__(self) -> None:
        self.refused: list[LiteMQError] = []

    def refuse(self, _frame: Frame, error: LiteMQError) -> None:
        self.refused.append(error)


class _Requests:
    """Held requests, and those that were served."""

    def __init__(self) -> None:
        self.served: list[tuple[Session, int]] = []
        self.held = HeldRequests(lambda session, frames: self.served.extend((session, each[0]) for each in frames))


def _session() -> Session:
    return cast("Session", _Session())


def _frame(correlation: int, opcode: int = Opcode.SEND, size: int = 10) -> Frame:
    return Frame(correlation, opcode, 0, b"", b"x" * size)


def test_held_requests_are_served_in_their_order_and_followers_are_not_held() -> None:
    requests, one, other = _Requests(), _session(), _session()
    requests.held.hold()
    fetch = _frame(2, Opcode.FETCH_LOG)
    assert requests.held.add(one, [_frame(1), fetch, _frame(3)]) == [fetch]
    assert requests.held.add(other, [_frame(4)]) == []
    assert requests.held.add(one, [_frame(5)]) == []
    assert requests.served == []
    requests.held.release()
    assert requests.served == [(one, 1), (one, 3), (one, 5), (other, 4)]
    requests.held.release()
    assert len(requests.served) == 4


def test_requests_of_a_lost_connection_are_dropped() -> None:
    requests, one, other = _Requests(), _session(), _session()
    requests.held.hold()
    requests.held.add(one, [_frame(1)])
    requests.held.add(other, [_frame(2)])
    requests.held.caller_gone(one)
    requests.held.release()
    assert requests.served == [(other, 2)]


def test_the_memory_of_held_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_requests, "_MAX_BYTES", 10_000)
    requests, one, other = _Requests(), _session(), _session()
    requests.held.hold()
    requests.held.add(one, [_frame(1, size=9_000)])
    requests.held.add(other, [_frame(2, size=9_000)])
    (error,) = cast("_Session", other).refused
    assert isinstance(error, OverloadedError)
    requests.held.caller_gone(one)  # its memory is free again
    requests.held.add(other, [_frame(3, size=9_000)])
    requests.held.release()
    assert requests.served == [(other, 3)]
