"""Damage found in an open store: projections are rebuilt, damaged records are reported."""

import shutil
from pathlib import Path

import pytest

from litemq.errors import CorruptStoreError
from support.stores import open_store, read_bodies, send_bodies


@pytest.mark.parametrize("damage", ["flip", "partial block", "cut", "gone", "all gone"])
def test_damaged_queues_are_rebuilt_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    bodies = [f"{n}".encode() for n in range(300)]
    send_bodies(store, "orders", bodies)
    store.close()
    path = next((tmp_path / "consumequeue" / "orders" / "0").glob("*0"))
    data = bytearray(path.read_bytes())
    assert len(data) == 300 * 24
    match damage:
        case "flip":
            data[1000] ^= 1
            path.write_bytes(data)
        case "partial block":
            data[-20] ^= 1
            path.write_bytes(data)
        case "cut":
            path.write_bytes(data[:5000])
        case "gone":
            path.unlink()
        case "all gone":
            shutil.rmtree(tmp_path / "consumequeue")
    again = open_store(tmp_path)
    assert read_bodies(again, "orders") == bodies
    assert "rebuilding the queues from the log" in caplog.text
    again.close()
    caplog.clear()
    healed = open_store(tmp_path)
    assert read_bodies(healed, "orders") == bodies
    assert "rebuilding" not in caplog.text
    healed.close()


def test_damage_in_the_log_is_reported(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    send_bodies(store, "orders", [b"one", b"two"])
    store.close()
    segment = next((tmp_path / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    at = data.index(b"two") // 8 * 8 - 152 + 24  # its queue offset
    data[at + 7] ^= 64
    segment.write_bytes(data)
    again = open_store(tmp_path)
    with pytest.raises(CorruptStoreError, match="broker-crc") as caught:
        read_bodies(again, "orders")
    assert caught.value.path == str(segment)
    again.abandon()
