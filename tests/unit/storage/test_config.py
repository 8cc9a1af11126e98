"""Limits of a store's settings."""

import pytest

from litemq.errors import InvalidArgumentError
from litemq.storage.config import StoreConfig


@pytest.mark.parametrize(("clean", "refuse"), [(0, 90), (101, 101), (95, 90), (75, 101), (100, 0), (-1, 90)])
def test_impossible_percentages_of_the_disk_are_refused(clean: float, refuse: float) -> None:
    with pytest.raises(InvalidArgumentError, match="disk_clean_percent <= disk_refuse_percent"):
        StoreConfig(disk_clean_percent=clean, disk_refuse_percent=refuse)


@pytest.mark.parametrize(("clean", "refuse"), [(75, 90), (90, 90), (100, 90), (100, 100)])
def test_possible_percentages_of_the_disk(clean: float, refuse: float) -> None:
    assert StoreConfig(disk_clean_percent=clean, disk_refuse_percent=refuse).disk_clean_percent == clean
