"""Settings for the tests of servers."""

import pytest

from litemq.server import registration
from support.waiting import HANG_S


@pytest.fixture(autouse=True)
def _patient_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the timeouts for slow machines: otherwise a broker may stop without deregistering."""
    monkeypatch.setattr(registration, "_TIMEOUT_S", 10 * HANG_S)
    monkeypatch.setattr(registration, "_DEREGISTER_TIMEOUT_S", HANG_S)
