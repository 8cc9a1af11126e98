"""Members of etcd for benchmarks: what they need, and their leader."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from litemq.bench import etcd_members
from litemq.bench.etcd_members import endpoints_of, leader_of, running_etcd, why_no_etcd
from litemq.errors import LiteMQError


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/etcd")
    assert not why_no_etcd()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "litemq[etcd]" in why_no_etcd()
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert "not installed" in why_no_etcd()


def test_a_killed_leader_is_replaced_and_returns(tmp_path: Path) -> None:
    with running_etcd(3, tmp_path) as members:
        assert len(set(endpoints_of(members).split(","))) == 3
        leader = leader_of(members)
        leader.kill()
        leader.wait_ended()
        assert leader_of(members) is not leader
        leader.start()
        leader.wait_healthy()


def test_a_member_that_does_not_start_shows_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_members, "free_port", lambda: 70_000)
    with pytest.raises(LiteMQError, match=r"etcd did not start: .*port"), running_etcd(1, tmp_path):
        pass
