"""``litemq store``: look at a data directory without a broker, and carry messages out of it and into it."""

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
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from litemq.cli.nouns import new_noun
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_value
from litemq.clock import SystemClock
from litemq.errors import CorruptStoreError
from litemq.storage.config import StoreConfig
from litemq.storage.offline.directory_reader import check_data_directory
from litemq.storage.offline.export_v1 import export_messages
from litemq.storage.offline.import_v1 import import_messages
from litemq.storage.offline.inspect import Inspected, inspect_file
from litemq.storage.offline.rebuild import rebuild_directory
from litemq.storage.offline.verify import verify_directory

__all__ = ["app"]

app = new_noun("store")


class RecordVersion(StrEnum):
    """What ``--record-version`` takes: the layouts in which messages travel outside of a data directory."""

    ONE = "1"


Version = Annotated[RecordVersion, typer.Option("--record-version", help="The records' layout: 1 is the original one.")]


@app.callback()
def store() -> None:
    """Look at a data directory, and carry messages out of it and into it, without a broker."""


@app.command("inspect")
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of the log: commitlog/<20 digits>, or one in the original layout.")],
    output: Format = OutputFormat.TABLE,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many messages to show.")] = 1_000_000_000,
) -> None:
    """Show the messages of one file of the log, version 1 or 2. Nothing is changed, and a running broker is not disturbed."""
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
    """What the original reader showed, and behind it whatever else a message has."""
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
        "body": stored.record.body.decode("utf-8", "backslashreplace"),
        "body_bytes": len(stored.record.body),
        "properties": dict(stored.record.properties),
    }
    stamp = {} if stored.stamp is None else stored.stamp._asdict()
    facts = {} if stored.facts is None else stored.facts._asdict()
    return {"position": message.position, "size": stored.size, "record_version": stored.version, **record, **stamp, **facts}


@app.command("verify")
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Check a data directory whole, and name what is damaged by file and byte. Exits with 1 when anything is."""
    with _progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
        task = progress.add_task("verify")
        found = verify_directory(directory, after_file=lambda path: progress.update(task, description=f"verify {path.name}"))
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
        verdict = f"{len(found.findings)} findings" if found.findings else "nothing is damaged"
        looked_at = f"{found.segments} segments, {found.records} records, {found.queue_files} queue files, {found.index_files} index files"
        sys.stdout.write(f"{looked_at}: {verdict}\n")
        if found.above_checkpoint_bytes:
            sys.stdout.write(f"{found.above_checkpoint_bytes} bytes above the checkpoint are for the next opening to check\n")
    if found.findings:
        raise typer.Exit(1)


@app.command("rebuild")
def rebuild(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory that no broker has open.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Make queues, key index and state anew from the log. Damaged records are left out and named; then it exits with 1."""
    with _steps() as show:
        done = rebuild_directory(directory, StoreConfig(), SystemClock(), replayed=lambda read, total: show("rebuild", read, total))
    if output is not OutputFormat.TABLE:
        damage = [{"path": error.path, "offset": error.offset, "reason": error.reason} for error in done.damage]
        write_value({**done._asdict(), "damage": damage}, output)
    else:
        for error in done.damage:
            sys.stdout.write(f"{error.path}: byte {error.offset}: {error.reason}\n")
        made = f"rebuilt {done.topics} topics, {done.queues} queues, {done.messages} messages from {done.log_bytes} bytes of log"
        sys.stdout.write(f"{made}{f', {len(done.damage)} records are damaged' if done.damage else ''}\n")
    if done.damage:
        raise typer.Exit(1)


@app.command("export")
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    record_version: Version,
    topic: Annotated[str | None, typer.Option("--topic", help="Only the messages of this topic.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE if it exists.")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Write the messages of a data directory to a file. Nothing in the directory is changed, and a running broker is not disturbed."""
    with _steps() as show:
        done = export_messages(directory, file, topic=topic, overwrite=force, after_window=lambda read, total: show("export", read, total))
    _print_carried("exported", done.messages, done.topics, done.bytes, record_version, output)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of records, one behind another.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory that no broker has open; made if it is missing.")],
    record_version: Version,
    queues: Annotated[
        int, typer.Option("--queues", min=1, max=65536, help="Queues of a topic that is created, if FILE names no more.")
    ] = 4,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Append the messages of a file to a data directory. The whole file is checked first: if it is damaged, nothing is changed."""
    if (directory / "broker" / "commitlog").is_dir():
        check_data_directory(directory)  # what `litemq up` made: the messages belong into the broker's
    with _steps() as show:
        done = import_messages(file, directory, SystemClock(), queues=queues, after_batch=show)
    _print_carried("imported", done.messages, done.topics, done.bytes, record_version, output)


def _progress(*columns: ProgressColumn) -> Progress:
    """On standard error, and gone when it is done; nothing at all where that is no terminal."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def _steps() -> Iterator[Callable[[str, int, int], None]]:
    """Shows the step that is under way, and how much of it is done."""
    with _progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task("", total=None)
        yield lambda step, done, total: progress.update(task, description=step, completed=done, total=total)


def _print_carried(verb: str, messages: int, topics: int, size: int, version: RecordVersion, output: OutputFormat) -> None:
    if output is not OutputFormat.TABLE:
        write_value({"messages": messages, "topics": topics, "bytes": size, "record_version": int(version)}, output)
    else:
        sys.stdout.write(f"{verb} {messages} messages of {topics} topics: {size} bytes of records, version {version}\n")
