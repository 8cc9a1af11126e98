"""``litemq store``: the data directory of a broker, without the broker."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from litemq.cli.nouns import new_noun
from litemq.cli.rendering.messages import body_as_value
from litemq.cli.rendering.output import Format, OutputFormat, counted, plain, write_value
from litemq.clock import SystemClock
from litemq.errors import CorruptStoreError, StorageError
from litemq.storage.config import StoreConfig
from litemq.storage.offline.backup import back_up
from litemq.storage.offline.backup_folder import BackupFolder
from litemq.storage.offline.directory_reader import check_data_directory
from litemq.storage.offline.export_v1 import export_messages
from litemq.storage.offline.import_v1 import import_messages
from litemq.storage.offline.inspect import Inspected, inspect_file
from litemq.storage.offline.rebuild import UnacceptedLossError, rebuild_directory
from litemq.storage.offline.restore import restore as restore_directory
from litemq.storage.offline.verify import verify_directory

__all__ = ["app"]

app = new_noun("store")


class RecordVersion(StrEnum):
    """Values of ``--record-version``: the record layouts of exported files."""

    ONE = "1"


Version = Annotated[
    RecordVersion, typer.Option("--record-version", help="Record layout of the file; 1 is the original one.")
]

AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Go on without damaged records that may have changed the state.",
        allow_from_autoenv=False,
    ),
]


@app.callback()
def store() -> None:
    """Back up, restore, inspect, verify, rebuild, export and import a data directory."""


@app.command("inspect")
def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Log file: commitlog/<20 digits>, or a file in the original layout.")
    ],
    output: Format = OutputFormat.TABLE,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, help="Maximum number of messages to show.")
    ] = 1_000_000_000,
) -> None:
    """Show the messages of a log file, version 1 or 2. Read-only, safe while a broker runs."""
    messages = islice(inspect_file(file), limit)
    if output is not OutputFormat.TABLE:
        write_value([_as_json(message) for message in messages], output)
    else:
        _print_messages(file, messages)


def _print_messages(file: Path, messages: Iterable[Inspected]) -> None:
    write = sys.stdout.write
    write(f"=== CommitLog File Reader ===\nFile: {file}\n")
    write(f"Size: {file.stat().st_size} bytes\n" if file.exists() else "")
    count = total = 0
    damage: CorruptStoreError | None = None
    try:
        for count, message in enumerate(messages, 1):
            total += message.stored.size
            write(f"\n=== Message #{count} (offset: {message.position}, size: {message.stored.size} bytes) ===\n")
            for name, value in _fields(message):
                write(f"{name + ':':<18} {value}\n")
    except CorruptStoreError as error:
        damage = error
    write(f"\n=== Summary ===\nTotal messages: {count}\nTotal size: {total} bytes\n")
    if damage is not None:
        raise damage


def _fields(message: Inspected) -> Iterable[tuple[str, object]]:
    """Yield the fields that the original reader showed, then all others."""
    record, stamp, facts = message.stored.record, message.stored.stamp, message.stored.facts
    yield "MessageID", plain(record.message_id)
    yield "Topic", plain(record.topic)
    if stamp is not None:
        yield "QueueID", stamp.queue_id
        yield "QueueOffset", stamp.queue_offset
        yield "CommitLogOffset", stamp.commitlog_offset
    yield "StoreSize", message.stored.size if facts is None else facts.store_size
    yield "Body", f"{plain(record.body)} ({len(record.body)} bytes)"
    for name, values in (("Tags", record.tags), ("Keys", record.keys)):
        if values:
            yield name, ", ".join(map(plain, values))
    for key, value in record.properties.items():
        yield "Property", f"{plain(key)} = {plain(value)}"
    yield "MessageType", record.type.name
    if stamp is not None:
        yield "Kind", stamp.kind.name
        yield "StoreTimestamp", _time(stamp.store_timestamp)
    yield "BornTimestamp", _time(record.born_timestamp)
    if record.delay_time:
        yield "DelayTime", _time(record.delay_time)


def _time(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat(timespec="milliseconds")


def _as_json(message: Inspected) -> dict[str, object]:
    stored = message.stored
    record = {name: value for name, value in stored.record._asdict().items() if name != "body"} | {
        **body_as_value(stored.record.body),
        "body_bytes": len(stored.record.body),
        "properties": dict(stored.record.properties),
    }
    stamp = {} if stored.stamp is None else stored.stamp._asdict()
    facts = {} if stored.facts is None else stored.facts._asdict()
    return {
        "position": message.position,
        "size": stored.size,
        "record_version": stored.version,
        **record,
        **stamp,
        **facts,
    }


@app.command("verify")
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory, or folder of backups.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Verify a data directory or a folder of backups, and report damage by file and byte.

    Exits with 1 if anything is damaged.
    """
    if (directory / "backups").is_dir():
        _verify_backups(BackupFolder(directory), output)
        return
    with _progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
        task = progress.add_task("verify")
        found = verify_directory(
            directory, on_file_checked=lambda path: progress.update(task, description=f"verify {path.name}")
        )
    if output is not OutputFormat.TABLE:
        findings = [finding._asdict() for finding in found.findings]
        write_value(
            {
                "segments": found.segments,
                "records": found.records,
                "queue_files": found.queue_files,
                "index_files": found.index_files,
                "above_checkpoint_bytes": found.above_checkpoint_bytes,
                "findings": findings,
            },
            output,
        )
    else:
        for finding in found.findings:
            sys.stdout.write(f"{finding.path}: byte {finding.offset}: {finding.reason}\n")
        verdict = f"{counted(len(found.findings), 'problem')} found" if found.findings else "no damage found"
        checked = (
            f"{counted(found.segments, 'segment')}, {counted(found.records, 'record')}, "
            f"{counted(found.queue_files, 'queue file')}, {counted(found.index_files, 'index file')}"
        )
        sys.stdout.write(f"{checked}: {verdict}\n")
        if found.above_checkpoint_bytes:
            sys.stdout.write(
                f"{found.above_checkpoint_bytes} bytes above the checkpoint will be checked at the next start\n"
            )
    if found.findings:
        raise typer.Exit(1)


def _verify_backups(folder: BackupFolder, output: OutputFormat) -> None:
    with _progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
        task = progress.add_task("verify")
        damage = folder.verify(lambda path: progress.update(task, description=f"verify {path.name}"))
    count = len(folder.names())
    if output is not OutputFormat.TABLE:
        write_value({"backups": count, "findings": _damage_as_json(damage)}, output)
    else:
        _print_damage(damage)
        verdict = f"{counted(len(damage), 'problem')} found" if damage else "no damage found"
        sys.stdout.write(f"{counted(count, 'backup')}: {verdict}\n")
    if damage:
        raise typer.Exit(1)


@app.command("rebuild")
def rebuild(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory that no broker has open.")],
    accept_loss: AcceptLoss = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Rebuild queues, key index, timers and state from the log.

    The old files stay until the new ones are complete. Damaged messages are skipped and reported,
    with exit code 1. If another damaged record may have changed the state, nothing is changed
    without --accept-loss.
    """
    with _listed_losses(), _steps() as show:
        done = rebuild_directory(
            directory,
            StoreConfig(),
            SystemClock(),
            accept_loss=accept_loss,
            on_replayed=lambda read, total: show("rebuild", read, total),
        )
    if output is not OutputFormat.TABLE:
        write_value({**done._asdict(), "damage": _damage_as_json(done.damage)}, output)
    else:
        _print_damage(done.damage)
        summary = (
            f"rebuilt {counted(done.topics, 'topic')}, {counted(done.queues, 'queue')}, "
            f"{counted(done.messages, 'message')} from {done.log_bytes} bytes of log"
        )
        if done.damage:
            summary += f"; skipped {counted(len(done.damage), 'damaged record')}"
        sys.stdout.write(f"{summary}\n")
    if done.damage:
        raise typer.Exit(1)


@contextmanager
def _listed_losses() -> Iterator[None]:
    """List the records that would be lost, if the user has not accepted that."""
    try:
        yield
    except UnacceptedLossError as refused:
        for loss in refused.losses:
            sys.stderr.write(f"{loss.path}: byte {loss.offset}: {loss.reason}\n")
        raise StorageError(f"{refused}. To accept this loss, add --accept-loss. Nothing was changed") from refused


@app.command("backup")
def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory; a broker may have it open.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Folder of backups; created if missing.")],
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Number of latest backups to keep; default: all.")
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Back up a data directory while a broker writes to it.

    Copies only what the latest backup in TARGET lacks. Damaged records are copied and reported,
    with exit code 1.
    """
    with _steps() as show:
        done = back_up(
            directory,
            target,
            SystemClock(),
            keep=keep,
            on_copied=lambda copied, total: show("back up", copied, total),
        )
    made = done.backup
    size = made.flushed - made.log_start
    if output is not OutputFormat.TABLE:
        write_value(
            {
                "backup": made.name,
                "log_start": made.log_start,
                "flushed": made.flushed,
                "bytes": size,
                "copied_bytes": done.copied_bytes,
                "damage": _damage_as_json(done.damage),
                "replaced": _damage_as_json(done.replaced),
            },
            output,
        )
    else:
        _print_damage(done.damage)
        for error in done.replaced:
            sys.stdout.write(f"{error.path}: byte {error.offset}: {error.reason}; earlier backups need this file\n")
        sys.stdout.write(f"backup {made.name}: {size} bytes of log, {done.copied_bytes} of them new\n")
    if done.damage:
        raise typer.Exit(1)


@app.command("restore")
def restore(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Folder of backups.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New data directory.")],
    name: Annotated[str | None, typer.Option("--backup", help="Name of the backup; default: the latest.")] = None,
    accept_loss: AcceptLoss = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Restore a data directory from a backup.

    Damaged messages are skipped and reported, with exit code 1.
    """
    with _listed_losses(), _steps() as show:
        made, rebuilt = restore_directory(
            target,
            directory,
            SystemClock(),
            name=name,
            accept_loss=accept_loss,
            on_restored=lambda copied, total: show("restore", copied, total),
        )
    if output is not OutputFormat.TABLE:
        write_value(
            {"backup": made.name, **rebuilt._asdict(), "damage": _damage_as_json(rebuilt.damage)},
            output,
        )
    else:
        _print_damage(rebuilt.damage)
        sys.stdout.write(
            f"restored {made.name}: {counted(rebuilt.topics, 'topic')}, {counted(rebuilt.queues, 'queue')}, "
            f"{counted(rebuilt.messages, 'message')} from {rebuilt.log_bytes} bytes of log\n"
        )
    if rebuilt.damage:
        raise typer.Exit(1)


def _damage_as_json(damage: list[CorruptStoreError]) -> list[dict[str, object]]:
    return [{"path": error.path, "offset": error.offset, "reason": error.reason} for error in damage]


def _print_damage(damage: list[CorruptStoreError]) -> None:
    for error in damage:
        sys.stdout.write(f"{error.path}: byte {error.offset}: {error.reason}\n")


@app.command("export")
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    record_version: Version,
    topic: Annotated[str | None, typer.Option("--topic", help="Only messages of this topic.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite FILE if it exists.", allow_from_autoenv=False)
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Export the messages of a data directory to a file.

    Only reads the directory; safe while a broker runs.
    """
    with _steps() as show:
        done = export_messages(
            directory, file, topic=topic, overwrite=force, on_progress=lambda read, total: show("export", read, total)
        )
    _print_carried("exported", done.messages, done.topics, done.bytes, record_version, output)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of concatenated records.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data directory that no broker has open; created if missing.")
    ],
    record_version: Version,
    queues: Annotated[
        int, typer.Option("--queues", min=1, max=65536, help="Minimum number of queues of a new topic.")
    ] = 4,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Import messages from a file into a data directory.

    If the file is damaged, nothing is changed.
    """
    if (directory / "broker" / "commitlog").is_dir():
        check_data_directory(directory)  # created by `litemq up`: import into DIR/broker
    with _steps() as show:
        done = import_messages(file, directory, SystemClock(), queues=queues, on_progress=show)
    _print_carried("imported", done.messages, done.topics, done.bytes, record_version, output)


def _progress(*columns: ProgressColumn) -> Progress:
    """Return a transient progress display on standard error, disabled if that is not a terminal."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def _steps() -> Iterator[Callable[[str, int, int], None]]:
    """Display progress; yield the callback ``(step, done, total)`` that updates it."""
    with _progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    ) as progress:
        task = progress.add_task("", total=None)
        yield lambda step, done, total: progress.update(task, description=step, completed=done, total=total)


def _print_carried(
    verb: str, messages: int, topics: int, size: int, version: RecordVersion, output: OutputFormat
) -> None:
    if output is not OutputFormat.TABLE:
        write_value({"messages": messages, "topics": topics, "bytes": size, "record_version": int(version)}, output)
    else:
        what = f"{counted(messages, 'message')} of {counted(topics, 'topic')}"
        sys.stdout.write(f"{verb} {what}: {size} bytes of records, version {version}\n")
