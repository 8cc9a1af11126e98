"""Damage of a stopped broker's directory is found, and left out if its broker knows it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from litemq.clock import FakeClock
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from support.cluster_chaos.flips import flip_bit
from support.cluster_chaos.repairs import damage


def test_damage_is_found_unless_it_is_known(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "data", StoreConfig(segment_bytes=69_632, max_record_bytes=4096), FakeClock())
    store.create_topic("orders", 1)
    end = store.log_end
    store.close()
    directories = {"a1": tmp_path / "data"}
    assert list(damage(directories, [])) == []
    flip = flip_bit("a1", tmp_path / "data" / "commitlog", end, Random(1))
    assert flip is not None
    (found,) = damage(directories, [])
    assert found.startswith(f"I12: {tmp_path}/data/commitlog/")
    assert list(damage(directories, [flip])) == []
