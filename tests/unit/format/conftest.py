"""Run every test of the format twice: with the C extension and without."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _both_loops(loops: str) -> str:
    return loops
