"""The checks of logs and replicas find what they are for."""

from __future__ import annotations

from pathlib import Path

from support.cluster_chaos.histories import count_cut_off, masters_of_epochs, two_masters, unequal_replicas


def _log(folder: Path, name: str, *lines: str) -> Path:
    path = folder / f"{name}.log"
    path.write_text("".join(f"2026-11-18T00:00:00.000Z WARNING {name}: {line}\n" for line in lines))
    return path


def _replica(folder: Path, **segments: bytes) -> Path:
    commitlog = folder / "commitlog"
    commitlog.mkdir(parents=True)
    for name, data in segments.items():
        (commitlog / name.removeprefix("at_").zfill(20)).write_bytes(data)
    return folder


def test_two_masters_of_an_epoch_are_found(tmp_path: Path) -> None:
    logs = [
        _log(tmp_path, "a1", "a1 is the master of group a in epoch 1", "a1 is no longer the master of group a"),
        _log(tmp_path, "a2", "a2 is the master of group a in epoch 2", "a2 is the master of group b in epoch 1"),
    ]
    assert masters_of_epochs(logs) == {("a", 1): {"a1"}, ("a", 2): {"a2"}, ("b", 1): {"a2"}}
    assert list(two_masters(masters_of_epochs(logs))) == []
    logs.append(_log(tmp_path, "a3", "a3 is the master of group a in epoch 2"))
    assert list(two_masters(masters_of_epochs(logs))) == ["I5: group a had the masters a2, a3 in epoch 2"]


def test_replicas_that_differ_are_found(tmp_path: Path) -> None:
    one = _replica(tmp_path / "1", at_0=b"abcd\0\0\0\0", at_8=b"efgh\0\0")
    later = _replica(tmp_path / "2", at_8=b"efgh")
    longer = _replica(tmp_path / "3", at_0=b"abcd", at_8=b"efgh\0ij", at_16=b"k")
    assert list(unequal_replicas([one, later, longer])) == []
    other = _replica(tmp_path / "4", at_0=b"abXd", at_8=b"efgh")
    last = _replica(tmp_path / "5", at_0=b"abcd", at_8=b"efgX")
    found = list(unequal_replicas([one, later, other, last]))
    assert [each.rpartition(" ")[2] for each in found] == ["2", "11"]
    assert found[0].startswith("I2: ")


def test_tails_are_counted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"cut-off-{5:020d}").touch()
    assert count_cut_off([tmp_path]) == 1
