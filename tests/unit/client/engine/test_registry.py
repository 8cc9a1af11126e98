"""Engines by the scheme of a URL."""

import pytest

from litemq.client import cluster
from litemq.client.engine.registry import find_engine
from litemq.errors import InvalidArgumentError
from litemq.testing import memory


def test_the_scheme_chooses_the_engine() -> None:
    assert find_engine("litemq://127.0.0.1:9876") is cluster.open_engine
    assert find_engine("memory://orders") is memory.open_engine


@pytest.mark.parametrize("url", ["kafka://127.0.0.1:9092", "127.0.0.1:9876", ""])
def test_an_unknown_scheme_names_the_installed_engines(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"write it like litemq://.*litemq://, memory://"):
        find_engine(url)
