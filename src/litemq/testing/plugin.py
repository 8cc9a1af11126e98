"""Fixtures for pytest, found by entry point. LiteMQ is imported only when a test uses one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from litemq.testing import FakeClock, MemoryBroker


@pytest.fixture
def litemq_clock() -> FakeClock:
    """A clock that only the test moves. If a test uses it, ``litemq_broker`` runs by it."""
    from litemq.testing import FakeClock

    return FakeClock()


@pytest.fixture
def litemq_broker(request: pytest.FixtureRequest) -> Iterator[MemoryBroker]:
    """An in-memory broker, new for each test.

    Clients on any thread and event loop connect to ``litemq_broker.url``.
    """
    from litemq.testing import MemoryBroker

    clock = request.getfixturevalue("litemq_clock") if "litemq_clock" in request.fixturenames else None
    with MemoryBroker(clock=clock) as broker:
        yield broker
