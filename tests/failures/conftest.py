"""Each test of this folder runs with a guard, and without it."""

import pytest


@pytest.fixture(params=[True, False], ids=["guarded", "unguarded"])
def is_guarded(request: pytest.FixtureRequest) -> bool:
    """Whether the guard is in force. Without it, the test expects the failure itself."""
    return bool(request.param)
