"""Descriptors: the soft limit is raised, and connections never get all of them."""

import logging
import resource

import pytest

from litemq.net.server import ServerLimits
from litemq.server.descriptors import connection_limits


@pytest.mark.parametrize(
    ("soft", "hard", "expected", "raised_to"),
    [
        (1024, 1 << 20, (10_000, 1000), 1 << 20),
        (1024, 1024, (384, 128), None),
        (4096, 8192, (4192, 1000), 8192),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, (10_000, 1000), None),
        (1024, resource.RLIM_INFINITY, (10_000, 1000), 1 << 20),
    ],
)
def test_the_store_keeps_its_share(
    soft: int,
    hard: int,
    expected: tuple[int, int],
    raised_to: int | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: set_to.append(limits))
    with caplog.at_level(logging.WARNING):
        assert connection_limits(ServerLimits()) == expected
    assert set_to == ([] if raised_to is None else [(raised_to, hard)])
    assert ("ulimit -n" in caplog.text) == (expected[0] < 10_000)
