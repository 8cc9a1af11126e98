"""Fixtures for pytest, which finds them by itself. Nothing of LiteMQ is imported before one of them is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from litemq.testing import FakeClock, MemoryBroker


@pytest.fixture
def litemq_clock() -> FakeClock:
    """A clock that stands still until a test moves it. Where a test asks for it, the broker of ``litemq_broker`` goes by it."""
    from litemq.testing import FakeClock

    return FakeClock()


@pytest.fixture
def litemq_broker(request: pytest.FixtureRequest) -> Iterator[MemoryBroker]:
    """A broker in memory, fresh for each test: ``litemq_broker.url`` is for clients on any thread and event loop."""
    from litemq.testing import MemoryBroker

    clock = request.getfixturevalue("litemq_clock") if "litemq_clock" in request.fixturenames else None
    with MemoryBroker(clock=clock) as broker:
        yield broker
