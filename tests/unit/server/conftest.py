"""Settings for the tests of servers."""

import pytest

from litemq.server import registration
from support.waiting import HANG_S


@pytest.fixture(autouse=True)
def _patient_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A NameServer that answers is waited for, however busy the machine is: to one that is late, a broker would say no goodbye."""
    monkeypatch.setattr(registration, "_TIMEOUT_S", 10 * HANG_S)
    monkeypatch.setattr(registration, "_DEREGISTER_TIMEOUT_S", HANG_S)
