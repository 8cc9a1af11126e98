"""Seeded schedules of a broker and its store: none is bad, and each undone fix is found again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from litemq.broker.delivery.lessor import Lessor
from litemq.broker.delivery.tick_record import TickRecord
from litemq.storage.batches.half_batches import rollback_controls
from litemq.storage.maintenance import Maintenance
from litemq.storage.retainer import Retainer
from litemq.storage.retention.retention import crossing_record
from support.schedules.scenarios import SCENARIOS

_SEEDS: Final = 30
_FOUND_WITHIN_S: Final = 60


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_schedule_is_bad(scenario: str, tmp_path: Path) -> None:
    for seed in range(_SEEDS):
        _run(scenario, seed, tmp_path)


def _run(scenario: str, seed: int, folder: Path) -> None:
    directory = folder / f"seed-{seed}"
    try:
        SCENARIOS[scenario](seed, directory)
    except BaseException as error:
        error.add_note(f"scenario {scenario}, seed {seed}")
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _cross_without_a_check(retainer: Any, log_start: int, start_offsets: Any, _tried: set[int]) -> Any:
    parts = retainer._parts
    with parts.writing:
        undecided = parts.state.parts.halves.undecided_before(log_start)
        for control in rollback_controls(undecided, "undecided when retention dropped their segment"):
            retainer._writer.append_control(control)
        crossing = crossing_record(parts.state, log_start, start_offsets, 0)
        retainer._writer.append_control(crossing)
        return crossing


def _look_at_the_latest_confirmation(
    lessor: Any, leased_topic: Any, _confirmed: int, keep_waiting: Callable[..., None] = Lessor._keep_waiting
) -> None:
    keep_waiting(lessor, leased_topic, lessor._store.confirm_offset)


def _snapshot_under_the_lock(maintenance: Any, snapshot: Callable[[Any], int] = Maintenance.snapshot) -> int:
    with maintenance._parts.maintaining:
        return snapshot(maintenance)


@pytest.mark.parametrize(
    ("scenario", "undone", "message"),
    [
        # A nack that is accepted beside retention refers to a record that retention drops.
        ("nacks", [(TickRecord, "copies_before", lambda _record, _log_offset: [])], "accepted nacks are lost"),
        # A batch that is committed beside retention goes with its segment.
        ("sinks", [(Retainer, "_try_to_cross", _cross_without_a_check)], "committed, but"),
        # A message is confirmed after it was looked for, and before the consumer waits for that.
        ("arrivals", [(Lessor, "_keep_waiting", _look_at_the_latest_confirmation)], "nothing was delivered"),
        # A slow sync would stop all threads that need the lock.
        ("nacks", [(Maintenance, "snapshot", _snapshot_under_the_lock)], "waits while it holds"),
    ],
    ids=["nack", "sink", "arrival", "wait"],
)
def test_an_undone_fix_is_found_again(
    scenario: str,
    undone: list[tuple[type, str, Callable[..., object]]],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for owner, name, replacement in undone:
        monkeypatch.setattr(owner, name, replacement)
    until = time.monotonic() + _FOUND_WITHIN_S
    seed = 0
    while time.monotonic() < until:
        try:
            _run(scenario, seed, tmp_path)
        except AssertionError as error:
            assert message in str(error)  # noqa: PT017  any seed may show it
            return
        seed += 1
    pytest.fail(f"{seed} schedules in {_FOUND_WITHIN_S} s, and none shows the fault")
