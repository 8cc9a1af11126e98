"""The rounds of a plan: each category first, each kind, sometimes two faults at once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import islice
from types import SimpleNamespace
from typing import cast

from support.cluster_chaos.faults import CATEGORIES, Fault, Faults
from support.cluster_chaos.schedule import Plan, schedule


def _begin() -> AbstractAsyncContextManager[str]:
    return nullcontext("")


def _faults() -> Faults:
    by_name = {
        f"{category} {number}": Fault(category, _begin, is_of_whole_group=category == "disk")
        for category, count in zip(CATEGORIES, (20, 9, 4, 12, 1), strict=True)
        for number in range(count)
    }
    by_name["clock of master: an hour off"] = Fault("clock", _begin)
    return cast("Faults", SimpleNamespace(by_name=by_name))


def test_the_first_rounds_have_each_category_and_all_rounds_have_each_kind() -> None:
    faults = _faults()
    for seed in range(20):
        rounds = list(islice(schedule(faults, Plan(180, seed)), len(faults.by_name)))
        names = [each.faults[0].fault for each in rounds]
        assert {faults.by_name[name].category for name in names[: len(CATEGORIES)]} == set(CATEGORIES)
        assert set(names) == faults.by_name.keys()


def test_a_second_fault_begins_before_the_first_is_healed() -> None:
    faults = _faults()
    rounds = list(islice(schedule(faults, Plan(180, 1)), 1000))
    both = [each for each in rounds if len(each.faults) == 2]
    assert 200 < len(both) < 400
    for one, other in (each.faults for each in both):
        assert one.after == 0.0
        assert 0.0 < other.after < one.lasts
        assert other.fault != one.fault
        assert not faults.by_name[other.fault].is_of_whole_group


def test_a_seed_decides_the_rounds() -> None:
    first, again, other = (list(islice(schedule(_faults(), Plan(180, seed)), 50)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_long_run_waits_until_a_running_broker_follows_its_clock() -> None:
    for seconds, least in ((180, 1.0), (1800, 60.0)):
        rounds = islice(schedule(_faults(), Plan(seconds, 1, only="an hour off")), 20)
        assert all(each.faults[0].lasts > least for each in rounds)
