"""The package: what it offers is seen before it is imported."""

import litemq


def test_what_is_public_is_completed_and_there() -> None:
    assert set(litemq.__all__) <= set(dir(litemq))
    assert all(getattr(litemq, name) is not None for name in litemq.__all__)
