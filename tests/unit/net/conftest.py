"""What is read and written by loops in C is tested twice: with them, and without."""

from collections.abc import Iterator

import pytest

from litemq.format import native


@pytest.fixture(params=["native", "pure"], scope="module")
def codec(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which of the two does the work; for a module that asks for it."""
    if request.param == "native" and not native.enabled:
        pytest.skip("the extension was not built, or LITEMQ_PURE is set")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", request.param == "native")
        yield request.param
