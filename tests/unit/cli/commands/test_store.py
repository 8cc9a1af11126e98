"""``litemq store``: the output of the original reader, and damage by position."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq.__main__ import EXIT_INTERRUPTED
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_USAGE
from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.format.record_encode import encode_record
from litemq.format.v1.record import encode_record_v1
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.types import Record, Stamp

RUNNER = CliRunner()
CONFIG = StoreConfig(segment_bytes=139_264, max_record_bytes=65_536)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = DiskStore(tmp_path / "data", CONFIG, FakeClock(), host="here")
    topic = store.create_topic("test_topic", 1)
    batch = b"".join(
        encode_record(Record("test_topic", b"Hello LiteMQ! Message #%d" % n, f"id-{n}", tags=("a",)))
        for n in range(400)
    )
    store.append(bytearray(batch), topic.topic_id, 0)
    store.close()
    return tmp_path / "data"


def test_inspect_shows_what_the_original_reader_showed(tmp_path: Path) -> None:
    file = tmp_path / "old"
    record = Record("test_topic", b"Hello LiteMQ! Message #1", "1766547877259022000-0")
    file.write_bytes(encode_record_v1(record, Stamp()))
    size = file.stat().st_size
    result = RUNNER.invoke(app, ["store", "inspect", str(file)])
    assert result.exit_code == 0
    expected = f"""=== CommitLog File Reader ===
File: {file}
Size: {size} bytes

=== Message #1 (offset: 0, size: {size} bytes) ===
MessageID:         1766547877259022000-0
Topic:             test_topic
QueueID:           0
QueueOffset:       0
CommitLogOffset:   0
StoreSize:         {size}
Body:              Hello LiteMQ! Message #1 (24 bytes)
"""
    assert result.stdout.startswith(expected)
    assert result.stdout.endswith(f"\n=== Summary ===\nTotal messages: 1\nTotal size: {size} bytes\n")


def test_inspect_reads_a_segment_as_table_and_json(directory: Path) -> None:
    segment = min((directory / "commitlog").iterdir())
    table = RUNNER.invoke(app, ["store", "inspect", str(segment), "--limit", "3"]).stdout
    assert "Total messages: 3" in table
    assert "Kind:              CONTROL" in table
    messages = json.loads(RUNNER.invoke(app, ["store", "inspect", str(segment), "--format", "json"]).stdout)
    assert [m["message_id"] for m in messages if m["topic"] == "test_topic"] == [f"id-{n}" for n in range(400)]
    assert messages[1]["queue_offset"] == 0
    assert messages[1]["body"] == "Hello LiteMQ! Message #0"


def test_inspect_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "hostile"
    file.write_bytes(encode_record(Record("t\x1b]0;evil\x07", b"\x1b[2J\xff", "i\nd"), Stamp()))
    shown = RUNNER.invoke(app, ["store", "inspect", str(file)]).stdout
    assert "\x1b" not in shown
    assert "hex:1b5b324aff (5 bytes)" in shown
    (message,) = json.loads(RUNNER.invoke(app, ["store", "inspect", str(file), "--format", "json"]).stdout)
    assert (message["body"], message["body_hex"]) == (None, "1b5b324aff")
    assert "i\\nd" in shown


def test_inspect_names_damage_and_what_is_no_log(tmp_path: Path, directory: Path) -> None:
    segment = min((directory / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    data[1000] ^= 1
    segment.write_bytes(data)
    result = RUNNER.invoke(app, ["store", "inspect", str(segment)])
    assert isinstance(result.exception, CorruptStoreError)
    assert "Total messages: " in result.stdout
    (tmp_path / "noise").write_bytes(b"this is not a log")
    for path in (tmp_path / "noise", tmp_path / "missing", tmp_path):
        assert isinstance(RUNNER.invoke(app, ["store", "inspect", str(path)]).exception, InvalidArgumentError)


def test_the_directory_of_litemq_up_leads_to_the_one_of_its_broker(tmp_path: Path, directory: Path) -> None:
    broker = directory.rename(tmp_path / "broker")
    segment = min((broker / "commitlog").iterdir())
    (tmp_path / "old").write_bytes(b"")
    version = ("--record-version", "1")
    for arguments, says in (
        (("verify", str(tmp_path)), f"{broker}, which is one"),
        (("rebuild", str(tmp_path)), f"{broker}, which is one"),
        (("export", str(tmp_path), "file", *version), f"{broker}, which is one"),
        (("import", str(tmp_path / "old"), str(tmp_path), *version), f"{broker}, which is one"),
        (("inspect", str(tmp_path)), f"such as {segment}"),
        (("inspect", str(broker)), f"such as {segment}"),
    ):
        error = RUNNER.invoke(app, ["store", *arguments]).exception
        assert isinstance(error, InvalidArgumentError)
        assert says in str(error)


def test_verify_finds_nothing_in_a_sound_directory(directory: Path) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    result = RUNNER.invoke(app, ["store", "verify", str(directory)])
    assert (result.exit_code, result.stdout.endswith("no damage found\n")) == (0, True)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "at", "place"),
    [
        ("commitlog/00000000000000000000", 5000, None),
        ("checkpoint", 20, 0),
        ("checkpoint", 4096 + 30, 4096),
        ("epochs", 10, 0),
    ]
    + [("consumequeue/test_topic/0/00000000000000000000", at, at // 24 * 24) for at in (0, 4095, 5000)],
)
def test_verify_names_each_damage(directory: Path, name: str, at: int, place: int | None) -> None:
    path = directory / name
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)
    result = RUNNER.invoke(app, ["store", "verify", str(directory), "--format", "json"])
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)["findings"]
    assert finding["path"] == str(path)
    assert finding["offset"] == place if place is not None else 0 <= at - finding["offset"] < 300


def test_verify_wants_a_data_directory(tmp_path: Path) -> None:
    assert isinstance(RUNNER.invoke(app, ["store", "verify", str(tmp_path)]).exception, InvalidArgumentError)


def _export(*arguments: object) -> list[str]:
    return ["store", "export", *map(str, arguments), "--record-version", "1"]


def _import(*arguments: object) -> list[str]:
    return ["store", "import", *map(str, arguments), "--record-version", "1"]


def test_export_and_import_carry_messages_to_another_directory(tmp_path: Path, directory: Path) -> None:
    file, copy = tmp_path / "file", tmp_path / "copy"
    DiskStore(copy, CONFIG, FakeClock(), host="there").close()
    exported = RUNNER.invoke(app, _export(directory, file))
    size = file.stat().st_size
    assert (exported.exit_code, exported.stdout, exported.stderr) == (
        0,
        f"exported 400 messages of 1 topic: {size} bytes of records, version 1\n",
        "",
    )
    imported = RUNNER.invoke(app, _import(file, copy, "--format", "json", "--queues", 7))
    assert (imported.exit_code, imported.stderr) == (0, "")
    assert json.loads(imported.stdout) == {"messages": 400, "topics": 1, "bytes": size, "record_version": 1}
    again = RUNNER.invoke(app, _export(copy, tmp_path / "again", "--topic", "test_topic", "--format", "json"))
    assert json.loads(again.stdout)["messages"] == 400
    shown = json.loads(RUNNER.invoke(app, ["store", "inspect", str(tmp_path / "again"), "--format", "json"]).stdout)
    assert [one["message_id"] for one in shown] == [f"id-{n}" for n in range(400)]
    store = DiskStore(copy, CONFIG, FakeClock())
    assert store.create_topic("test_topic").queues == 7
    store.close()


def test_export_overwrites_only_with_force(tmp_path: Path, directory: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    assert isinstance(RUNNER.invoke(app, _export(directory, file)).exception, InvalidArgumentError)
    assert file.read_bytes() == b"mine"
    assert RUNNER.invoke(app, _export(directory, file, "--force")).exit_code == 0
    assert file.read_bytes() != b"mine"


@pytest.mark.parametrize("command", ["export", "import"])
@pytest.mark.parametrize(
    ("version", "says"),
    [([], "Missing option '--record-version'"), (["--record-version", "2"], "'2' is not one of '1'")],
)
def test_the_version_must_be_said(tmp_path: Path, command: str, version: list[str], says: str) -> None:
    result = RUNNER.invoke(app, ["store", command, "one", "two", *version], env={"COLUMNS": "200"})
    assert result.exit_code == EXIT_USAGE
    assert says in result.output


_INTERRUPTED = """
import os, signal, sys
import {module} as module
from litemq.__main__ import main

original = module.{function}

def interrupting(*arguments, **options):
    result = original(*arguments, **options)
    module.{function} = original
    os.kill(os.getpid(), signal.SIGINT)
    return result

module.{function} = interrupting
main()
"""


def _run_interrupted(module: str, function: str, arguments: list[str]) -> None:
    program = _INTERRUPTED.format(module=module, function=function)
    result = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (EXIT_INTERRUPTED, "", "")


def test_ctrl_c_leaves_no_half_file(tmp_path: Path, directory: Path) -> None:
    _run_interrupted("litemq.storage.offline.export_v1", "downgrade", _export(directory, tmp_path / "file"))
    assert list(tmp_path.iterdir()) == [directory]


def test_ctrl_c_in_an_import_leaves_a_sound_directory(tmp_path: Path, directory: Path) -> None:
    assert RUNNER.invoke(app, _export(directory, tmp_path / "file")).exit_code == 0
    # In the middle of the first append: the log has it, the queues do not.
    _run_interrupted("litemq.storage.log.commitlog", "CommitLog.write", _import(tmp_path / "file", directory))
    store = DiskStore(directory, CONFIG, FakeClock())
    topic = store.create_topic("test_topic")
    appended = store.append(bytearray(encode_record(Record("test_topic"))), topic.topic_id, 0)
    assert appended.queue_offsets.tolist() == [800]
    store.close()
    assert RUNNER.invoke(app, ["store", "verify", str(directory)]).exit_code == 0
