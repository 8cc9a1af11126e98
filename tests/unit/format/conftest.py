"""Every test of the format runs twice: with the loops in C, and without."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _both_loops(loops: str) -> str:
    return loops
