"""The embedded store: registrations survive every kind of stop; damage is detected and replaced."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from litemq.errors import StorageError, StoreLockedError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.cluster_store.store import ClusterStore, StoredBroker
from litemq.proto.wire_pb2 import BrokerFacts, TopicQueues


def _broker(name: str, topics: int = 2, silent: bool = False) -> StoredBroker:
    queues = [TopicQueues(topic=f"topic-{n}", queues=4) for n in range(topics)]
    return StoredBroker(BrokerFacts(name=name, host="127.0.0.1", port=10911, started_at=5, topics=queues), silent)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "names" / "cluster.db"


def _contents(path: Path) -> list[StoredBroker]:
    store = EmbeddedStore(path)
    try:
        return store.brokers()
    finally:
        store.close()


def test_brokers_survive_a_restart(path: Path) -> None:
    store: ClusterStore = EmbeddedStore(path)
    for name in ("b", "a", "c"):
        store.put_broker(_broker(name))
    store.put_broker(_broker("b", topics=3, silent=True))
    store.remove_broker("c")
    store.remove_broker("never there")
    assert store.brokers() == [_broker("a"), _broker("b", topics=3, silent=True)]
    store.close()
    assert _contents(path) == [_broker("a"), _broker("b", topics=3, silent=True)]
    assert path.stat().st_mode & 0o007 == 0


def test_without_a_path_it_is_in_memory() -> None:
    store = EmbeddedStore()
    store.put_broker(_broker("a"))
    assert store.brokers() == [_broker("a")]
    store.close()


def test_brokers_survive_sigkill(path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys\n"
        "from litemq.nameserver.cluster_store.embedded import EmbeddedStore\n"
        "from litemq.nameserver.cluster_store.store import StoredBroker\n"
        "from litemq.proto.wire_pb2 import BrokerFacts\n"
        "store = EmbeddedStore(pathlib.Path(sys.argv[1]))\n"
        "for n in range(50):\n"
        "    store.put_broker(StoredBroker(BrokerFacts(name=f'b{n:02}'), False))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [broker.facts.name for broker in _contents(path)] == [f"b{n:02}" for n in range(50)]


def test_a_file_has_one_nameserver(path: Path) -> None:
    store = EmbeddedStore(path)
    with pytest.raises(StoreLockedError, match="another NameServer has"):
        EmbeddedStore(path)
    store.put_broker(_broker("a"))
    store.close()
    assert _contents(path) == [_broker("a")]


@pytest.mark.parametrize("damage", [b"no database at all" * 100, b"", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside(path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = EmbeddedStore(path)
    store.put_broker(_broker("a"))
    store.close()
    path.write_bytes(damage)
    for _ in range(2):
        assert _contents(path) == []
    if damage:
        assert path.with_name("cluster.db.damaged").read_bytes() == damage
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "created a new one" in record.getMessage()


def test_flipped_bits_and_truncation_are_detected(path: Path) -> None:
    store = EmbeddedStore(path)
    written = [_broker("a", topics=160), _broker("b", silent=True)]
    for broker in written:
        store.put_broker(broker)
    store.close()
    whole = path.read_bytes()
    assert not path.with_name("cluster.db-wal").exists()
    flips = [(at, bit) for at in [*range(0, 128, 3), *range(128, len(whole), 83)] for bit in (1, 0x80)]
    damages = [whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :] for at, bit in flips]
    damages += [whole[:size] for size in range(0, len(whole), 999)]
    kept = 0
    for damaged in damages:
        path.write_bytes(damaged)
        try:
            found = _contents(path)
        except StorageError as error:
            if "upgrade the NameServer" not in str(error):  # which it is where the bit was the version's
                raise
            continue
        assert all(broker in written for broker in found)
        kept += found == written
        store = EmbeddedStore(path)  # and whatever was found, it works from here on
        store.put_broker(_broker("new"))
        assert _broker("new") in store.brokers()
        store.close()
    assert 0 < kept < len(damages)


def test_a_row_under_a_wrong_name_or_with_other_facts_is_damage(path: Path) -> None:
    for change in ("name = 'z'", "silent = 1", "facts = x'0a'", "facts = 'text'", "crc = 7"):
        store = EmbeddedStore(path)
        store.put_broker(_broker("a"))
        store.close()
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE brokers SET {change}")  # noqa: S608
        connection.close()
        assert _contents(path) == [], change


def test_a_newer_file_is_left_alone(path: Path) -> None:
    EmbeddedStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(StorageError, match="upgrade the NameServer"):
        EmbeddedStore(path)
    assert not path.with_name("cluster.db.damaged").exists()


def test_the_error_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Choose another storage\.data_path"):
        EmbeddedStore(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Choose another storage\.data_path"):
        EmbeddedStore(tmp_path / "file" / "cluster.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="the right to write"):
        EmbeddedStore(tmp_path / "cluster.db")


def test_a_full_disk_changes_nothing(path: Path) -> None:
    store = EmbeddedStore(path)
    store.put_broker(_broker("a"))
    store._connection.execute("PRAGMA max_page_count=4")
    with pytest.raises(StorageError, match="free some space"):
        store.put_broker(_broker("b", topics=10_000))
    assert store.brokers() == [_broker("a")]
    store.close()
