"""The numbers and directories of ``litemq up``."""

from pathlib import Path

import pytest
import typer

from litemq.cli.processes.up_layout import broker_settings, count_brokers, count_replicas, replica_settings
from litemq.errors import InvalidArgumentError
from litemq.types import MAX_REPLICAS


def test_the_number_of_brokers_is_that_of_before_or_more(tmp_path: Path) -> None:
    assert count_brokers(tmp_path, None) == 1
    (tmp_path / "broker-3").mkdir()
    assert count_brokers(tmp_path, None) == 3
    assert count_brokers(tmp_path, 4) == 4
    with pytest.raises(InvalidArgumentError, match="the messages of 3 brokers"):
        count_brokers(tmp_path, 2)


def test_the_number_of_replicas_is_that_of_before(tmp_path: Path) -> None:
    assert count_replicas(tmp_path, None, None) == 1
    assert count_replicas(tmp_path, 1, 2) == 1
    assert count_replicas(tmp_path, 3, None) == 3
    (tmp_path / "replica-3").mkdir()
    assert count_replicas(tmp_path, None, None) == count_replicas(tmp_path, 3, None) == 3
    for chosen, brokers in ((2, None), (4, None), (1, None), (None, 1)):
        with pytest.raises(InvalidArgumentError, match="has a group of 3 replicas"):
            count_replicas(tmp_path, chosen, brokers)


def test_a_group_may_be_as_large_as_one_of_brokers(tmp_path: Path) -> None:
    (tmp_path / f"replica-{MAX_REPLICAS}").mkdir()
    assert count_replicas(tmp_path, None, None) == MAX_REPLICAS


def test_replicas_do_not_mix_with_brokers(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="choose one of them"):
        count_replicas(tmp_path, 3, 2)
    (tmp_path / "broker").mkdir()
    with pytest.raises(InvalidArgumentError, match="a broker without replicas"):
        count_replicas(tmp_path, 3, None)


def test_ports_are_counted_up_and_checked(tmp_path: Path) -> None:
    settings = replica_settings(tmp_path, 3, 10911, 9876)
    assert [each["port"] for each in settings.values()] == [10911, 10912, 10913]
    assert [each["port"] for each in broker_settings(tmp_path, 2, 0, 9876).values()] == [0, 0]
    with pytest.raises(typer.BadParameter, match="9876 is also the NameServer's port"):
        replica_settings(tmp_path, 3, 9875, 9876)
    with pytest.raises(typer.BadParameter, match="3 replicas need the ports 65534"):
        replica_settings(tmp_path, 3, 65534, 9876)
