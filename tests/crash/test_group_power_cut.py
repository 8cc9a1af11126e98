"""Facts of groups after a power cut at any system call: none that was acknowledged is missing."""

import random
from pathlib import Path

from litemq.nameserver.cluster_store.group_file import GroupFile
from support.traced_files import TracedFiles, trace

_PROGRAM = """
import os, pathlib, sys
from litemq.nameserver.cluster_store.group_file import GroupFile, StoredFact
from litemq.nameserver.cluster_store.groups import GroupFact
for begin in (1, 5):
    file = GroupFile(pathlib.Path(sys.argv[1]))
    for epoch in range(begin, begin + 4):
        for name in ("orders", "payments"):
            fact = GroupFact(name, epoch, b"", frozenset({b"a" * 16}), 1, 8, revision=epoch)
            file.put(StoredFact(fact, 5_000))
            os.write(1, b"x")
    file.close()
"""


def _epochs(path: Path) -> list[int]:
    file = GroupFile(path)
    try:
        assert not file.is_lost
        return [file.stored[name].fact.epoch if name in file.stored else 0 for name in ("orders", "payments")]
    finally:
        file.close()


def test_acknowledged_facts_survive_a_power_cut_at_any_call(tmp_path: Path) -> None:
    folder = tmp_path / "names"
    folder.mkdir()
    calls = trace(_PROGRAM, tmp_path, str(folder / "groups.db"))
    files, choose = TracedFiles(folder), random.Random(8)
    cuts = 0
    for call in files.apply(calls):
        acknowledged = len(files.output)
        for keep in (0.0, 0.5, 0.5, 1.0):
            cuts += 1
            target = tmp_path / f"cut-{cuts}"
            files.cut_power(target, keep, choose)
            epochs = _epochs(target / "groups.db")
            assert sum(epochs) in (acknowledged, acknowledged + 1), (call, cuts)
            assert epochs[0] in (epochs[1], epochs[1] + 1)
            assert _epochs(target / "groups.db") == epochs  # and again
            for path in target.iterdir():
                path.unlink()
    assert len(files.output) == 16
    assert cuts > 1_000
