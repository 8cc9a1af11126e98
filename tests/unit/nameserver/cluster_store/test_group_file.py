"""The file of group facts: synced, locked, and never empty without a sign that facts were lost."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from litemq.errors import DiskFullError, StorageError, StoreLockedError
from litemq.nameserver.cluster_store.group_file import GroupFile, StoredFact
from litemq.nameserver.cluster_store.groups import GroupFact

A, B = b"a" * 16, b"b" * 16
ORDERS = StoredFact(GroupFact("orders", 3, A, frozenset({A, B}), 2, 1 << 30, revision=7), 5_000)
PAYMENTS = StoredFact(GroupFact("payments", 0, b"", frozenset({B}), 1, 1 << 20, revision=1), 0)
BOTH = {"orders": ORDERS, "payments": PAYMENTS}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "names" / "groups.db"


def _write(path: Path, *stored: StoredFact) -> None:
    file = GroupFile(path)
    for one in stored:
        file.put(one)
    file.close()


def _contents(path: Path) -> tuple[dict[str, StoredFact], bool]:
    file = GroupFile(path)
    try:
        return file.stored, file.is_lost
    finally:
        file.close()


def test_facts_survive_a_restart(path: Path) -> None:
    assert _contents(path) == ({}, False)
    later = StoredFact(replace(ORDERS.fact, epoch=4, holder=B, revision=8), 2_000)
    _write(path, ORDERS, PAYMENTS, later)
    assert _contents(path) == (BOTH | {"orders": later}, False)
    assert path.stat().st_mode & 0o007 == 0


def test_facts_survive_sigkill(path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys\n"
        "from litemq.nameserver.cluster_store.group_file import GroupFile, StoredFact\n"
        "from litemq.nameserver.cluster_store.groups import GroupFact\n"
        "file = GroupFile(pathlib.Path(sys.argv[1]))\n"
        "for n in range(20):\n"
        "    file.put(StoredFact(GroupFact(f'g{n:02}', n, b'', frozenset({b'a' * 16}), 1, 8), 0))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    stored, is_lost = _contents(path)
    assert [stored[name].fact.epoch for name in sorted(stored)] == list(range(20))
    assert not is_lost


def test_a_copy_of_the_files_after_a_commit_has_it(path: Path, tmp_path: Path) -> None:
    file = GroupFile(path)
    for number, stored in enumerate(BOTH.values()):
        file.put(stored)
        copy = tmp_path / f"copy-{number}" / path.name
        copy.parent.mkdir()
        for each in path.parent.iterdir():
            copy.with_name(each.name).write_bytes(each.read_bytes())
        assert _contents(copy) == (dict(list(BOTH.items())[: number + 1]), False)
    file.close()


def test_a_file_has_one_nameserver(path: Path) -> None:
    file = GroupFile(path)
    with pytest.raises(StoreLockedError, match="another NameServer has"):
        GroupFile(path)
    file.put(ORDERS)
    file.close()
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreLockedError, match="another NameServer has"):
        GroupFile(path)
    other.close()
    assert _contents(path) == ({"orders": ORDERS}, False)


@pytest.mark.parametrize("damage", [b"no database at all" * 100, b"", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside_and_the_loss_recorded(
    path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    _write(path, ORDERS)
    path.write_bytes(damage)
    for _ in range(2):
        assert _contents(path) == ({}, True)
    aside = path.with_name("groups.db.damaged")
    assert aside.read_bytes() == damage
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "litemq cluster recover GROUP" in record.getMessage()
    _write(path, PAYMENTS)
    aside.unlink()
    assert _contents(path) == ({"payments": PAYMENTS}, True)


def test_each_damaged_file_is_kept(path: Path) -> None:
    for number in range(3):
        _write(path, ORDERS)
        path.write_bytes(b"%d" % number)
        assert _contents(path) == ({}, True)
    for number, name in enumerate(("groups.db.damaged", "groups.db.damaged-2", "groups.db.damaged-3")):
        assert path.with_name(name).read_bytes() == b"%d" % number


def test_a_crash_after_the_damaged_file_was_renamed_does_not_hide_the_loss(path: Path) -> None:
    _write(path, ORDERS)
    path.rename(path.with_name("groups.db.damaged"))
    path.with_name("groups.db-journal").write_bytes(b"of the damaged file")
    path.with_name("groups.db.new").write_bytes(b"half a file")
    assert _contents(path) == ({}, True)
    assert path.with_name("groups.db.damaged-journal").read_bytes() == b"of the damaged file"
    assert not path.with_name("groups.db.new").exists()


def test_a_journal_without_its_file_is_a_loss(path: Path) -> None:
    _write(path, ORDERS)
    path.with_name("groups.db-journal").write_bytes(b"left")
    path.unlink()
    assert _contents(path) == ({}, True)


def test_a_crash_before_the_first_file_was_complete_is_no_loss(path: Path) -> None:
    path.parent.mkdir()
    path.with_name("groups.db.new").write_bytes(b"half a file")
    path.with_name("groups.db.new-journal").write_bytes(b"its journal")
    assert _contents(path) == ({}, False)


def test_flipped_bits_and_truncation_never_lose_a_fact_unnoticed(path: Path) -> None:
    _write(path, *BOTH.values(), *(_named(f"g{number}") for number in range(30)))
    whole, written = path.read_bytes(), _contents(path)[0]
    flips = [(at, bit) for at in [*range(0, 128, 3), *range(128, len(whole), 127)] for bit in (1, 0x80)]
    for page in range(0, len(whole), 4096):  # the headers of pages, which say how many rows there are
        flips += [(page + at, 1 << bit) for at in range(12) for bit in range(8)]
    damages = [whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :] for at, bit in flips]
    damages += [whole[:size] for size in range(0, len(whole), 999)]
    unchanged = lost = 0
    for damaged in damages:
        for each in path.parent.iterdir():
            each.unlink()
        path.write_bytes(damaged)
        try:
            found = _contents(path)
        except StorageError as error:
            if "upgrade the NameServer" not in str(error):  # the bit was the version's
                raise
            continue
        assert found in ((written, False), ({}, True))
        unchanged += found == (written, False)
        lost += found[1]
    assert unchanged > 0
    assert lost > 100


def _named(name: str) -> StoredFact:
    return StoredFact(replace(ORDERS.fact, name=name), 5_000)


def test_a_changed_or_missing_row_is_damage(path: Path) -> None:
    changes = [
        f"UPDATE groups SET {change} WHERE name = 'orders'"  # noqa: S608
        for change in (
            "name = 'z'",
            "fact = x'0a'",
            "fact = 'text'",
            "revision = 6",
            "revision = -1",
            "lease_ms = 1",
            "lease_ms = 'x'",
            "crc = 7",
        )
    ]
    changes += ["DELETE FROM groups WHERE name = 'orders'", "DELETE FROM contents", "UPDATE contents SET is_lost = 1"]
    changes += ["INSERT INTO contents SELECT * FROM contents", "DROP TABLE groups", "PRAGMA user_version = 0"]
    for change in changes:
        for each in path.parent.glob("*"):
            each.unlink()
        _write(path, *BOTH.values())
        with sqlite3.connect(path) as connection:
            connection.execute(change)
        connection.close()
        assert _contents(path) == ({}, True), change


def test_a_newer_file_is_left_alone(path: Path) -> None:
    _write(path, ORDERS)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(StorageError, match="upgrade the NameServer"):
        GroupFile(path)
    assert not path.with_name("groups.db.damaged").exists()


def test_the_error_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Choose another storage\.data_path"):
        GroupFile(tmp_path / "file" / "groups.db")
    (tmp_path / "groups.db").mkdir()
    with pytest.raises(StorageError, match=r"groups\.db"):
        GroupFile(tmp_path / "groups.db")
    assert (tmp_path / "groups.db").is_dir()


def test_a_full_disk_changes_nothing(path: Path) -> None:
    file = GroupFile(path)
    file.put(ORDERS)
    file._connection.execute("PRAGMA max_page_count=4")
    members = frozenset(number.to_bytes(16, "big") for number in range(64))
    big = [StoredFact(replace(PAYMENTS.fact, name=f"g{number}", members=members), 0) for number in range(9)]
    expected = {"orders": ORDERS}

    def fill() -> None:
        for stored in big:
            file.put(stored)
            expected[stored.fact.name] = stored

    with pytest.raises(DiskFullError, match="free some space"):
        fill()
    file._connection.execute("PRAGMA max_page_count=1000")
    assert file.stored == expected
    file.put(PAYMENTS)
    file.close()
    assert _contents(path) == (expected | {"payments": PAYMENTS}, False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="grant write permission"):
        GroupFile(tmp_path / "groups.db")
