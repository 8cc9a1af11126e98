"""The package: public names are listed before their modules are imported."""

import litemq


def test_public_names_are_listed_and_importable() -> None:
    assert set(litemq.__all__) <= set(dir(litemq))
    assert all(getattr(litemq, name) is not None for name in litemq.__all__)
