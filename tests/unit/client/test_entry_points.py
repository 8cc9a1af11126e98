"""Entry points of installed packages."""

from litemq.client.entry_points import installed


def test_the_engines_are_entry_points() -> None:
    assert "litemq" in installed("litemq.engines").names


def test_the_packages_are_read_once() -> None:
    assert next(iter(installed("litemq.engines"))) is next(iter(installed("litemq.engines")))


def test_a_group_without_entry_points_is_empty() -> None:
    assert not list(installed("litemq.none"))
