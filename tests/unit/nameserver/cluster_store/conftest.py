"""Fixtures of the tests of cluster stores."""

import secrets

import pytest


@pytest.fixture
def prefix() -> str:
    return f"/litemq/{secrets.token_hex(8)}"
