"""Python files of a directory: written, added, removed, ignored."""

import os
from pathlib import Path

from litemq.cli.processes.file_watch import FileWatch


def test_changes_are_reported_once(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("1")
    watch = FileWatch(str(tmp_path))
    assert watch.poll() == []
    (tmp_path / "package" / "a.py").write_text("22")
    (tmp_path / "c.py").write_text("1")
    (tmp_path / "b.py").unlink()
    assert watch.poll() == ["b.py", "c.py", "package/a.py"]
    assert watch.poll() == []


def test_a_file_that_is_replaced_with_the_same_time_and_size_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "a.py", tmp_path / "a.tmp"
    path.write_text("1")
    watch = FileWatch(str(tmp_path))
    other.write_text("2")
    times = path.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)
    assert watch.poll() == ["a.py"]


def test_other_files_environments_and_hidden_directories_are_ignored(tmp_path: Path) -> None:
    watch = FileWatch(str(tmp_path))
    for name in (".git", "__pycache__", "node_modules", "env"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("1")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "notes.txt").write_text("1")
    assert watch.poll() == []
