"""Filtered scans find all matching records of a queue, in any number of steps."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from litemq.broker.reading import filtered_scan as scanning
from litemq.broker.reading.filtered_scan import Scan, ScanResult, scan, scan_if_hot
from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, OffsetOutOfRangeError
from litemq.filters.filter import Filter, parse_filter
from litemq.format.record_encode import encode_record
from litemq.format.record_view import record_views
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import Opcode, PullAnswer, PullRequest
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey
from litemq.storage.store import Store
from litemq.types import Record
from support.callers import Asking, Kind, running_broker
from support.stores import open_store
from support.waiting import HANG_S

TAGS: tuple[tuple[str, ...], ...] = (("A",), ("B",), (), ("A", "B"), ("C",))


@pytest.fixture(autouse=True)
def _unlimited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scans run to the end on slow machines."""
    monkeypatch.setattr(scanning, "_SECONDS_HOT", 3600)
    monkeypatch.setattr(scanning, "_SECONDS_COLD", 3600)


def _wanted(text: str, *, is_sql: bool = False) -> Filter:
    found = parse_filter(text, is_sql=is_sql)
    assert found is not None
    return found


def _records(count: int) -> bytes:
    return b"".join(
        encode_record(Record("orders", b"x" * (n % 50), tags=TAGS[n % 5], properties={"n": str(n)}))
        for n in range(count)
    )


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = open_store(tmp_path) if request.param == "disk" else MemoryStore(FakeClock())
    topic = made.create_topic("orders", 2)
    made.wait_confirmed(made.append(bytearray(_records(100)), topic.topic_id, np.arange(100) % 2).end, HANG_S)
    yield made
    made.close()


KEY = QueueKey(16, 1)  # has the odd ones: n = 2 * offset + 1


def _numbers(records: bytes) -> list[int]:
    return [int(view.properties["n"]) for view in record_views(records)]


def _all(store: Store, wanted: Filter, *, most: int, size: int, hot: bool) -> list[int]:
    found: list[int] = []
    at = 0
    while True:
        asked = Scan(KEY, at, wanted, most, size)
        scanned = scan_if_hot(store, asked) if hot else scan(store, asked)
        assert scanned is not None
        numbers = _numbers(scanned.records)
        assert len(numbers) <= most
        found += numbers
        if scanned.at_end:
            assert scanned.next_offset == 50
            return found
        assert scanned.next_offset > at
        at = scanned.next_offset


@pytest.mark.parametrize(
    ("text", "is_sql"),
    [("A", False), ("A || C", False), ("n > 50 AND tags = 'A'", True), ("n < 9 OR n > 90", True), ("Z", False)],
)
@pytest.mark.parametrize("hot", [True, False])
@pytest.mark.parametrize(("most", "size"), [(1000, 1 << 20), (1, 1 << 20), (7, 1 << 20), (1000, 1), (1000, 500)])
def test_a_scan_finds_every_match_once(store: Store, text: str, is_sql: bool, hot: bool, most: int, size: int) -> None:
    wanted = _wanted(text, is_sql=is_sql)
    expected = [
        number
        for view in record_views(_records(100))
        if wanted.accepts(view) and (number := int(view.properties["n"])) % 2
    ]
    assert _all(store, wanted, most=most, size=size, hot=hot) == expected


@pytest.mark.parametrize("hot", [True, False])
def test_a_scan_ends_when_its_time_is_up(store: Store, hot: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_SECONDS_HOT", 0)
    monkeypatch.setattr(scanning, "_SECONDS_COLD", 0)
    monkeypatch.setattr(scanning, "_RECORDS", 4)
    asked = Scan(KEY, 0, _wanted("n > 1000", is_sql=True), 10, 1 << 20)
    scanned = scan_if_hot(store, asked) if hot else scan(store, asked)
    assert scanned == ScanResult(b"", 1)


def test_records_that_are_not_in_memory_are_read_in_a_thread(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Scan(KEY, 0, _wanted("C"), 10, 1 << 20)
    monkeypatch.setattr(store, "is_hot", lambda _offset: False)
    # Entries in memory rule the first one out. The second has two tags, so its record on disk
    # decides.
    assert scan_if_hot(store, asked) == ScanResult(b"", 1)
    assert scan_if_hot(store, asked._replace(first=1)) is None
    monkeypatch.setattr(store, "read_entries_if_hot", lambda *_: None)
    assert scan_if_hot(store, asked) is None


def test_an_offset_out_of_range_is_refused(store: Store) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        scan(store, Scan(KEY, 51, _wanted("A"), 10, 100))


def test_a_damaged_record_is_reported_at_its_offset(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    try:
        topic = store.create_topic("orders", 1)
        appended = store.append(bytearray(_records(10)), topic.topic_id, 0)
        store.wait_confirmed(appended.end, HANG_S)
        segment = next((tmp_path / "commitlog").iterdir())
        with segment.open("r+b") as file:
            file.seek(int(appended.log_offsets[5]) + 100)  # the second with tag A; the third is 8
            file.write(b"\xff")
        key = QueueKey(topic.topic_id, 0)
        first = scan(store, Scan(key, 0, _wanted("A"), 10, 1 << 20))
        assert (_numbers(first.records), first.next_offset, first.error is None) == ([0, 3], 5, False)
        second = scan(store, Scan(key, 5, _wanted("A"), 10, 1 << 20))
        assert (second.records, second.next_offset) == (b"", 5)
        assert isinstance(second.error, CorruptStoreError)
        third = scan(store, Scan(key, 6, _wanted("A"), 10, 1 << 20))
        assert _numbers(third.records) == [8]
        assert not scan(
            store, Scan(key, 4, _wanted("C"), 10, 1 << 20)
        ).error  # a damaged record that is no candidate is not read
    finally:
        store.close()


# Through pulls ------------------------------------------------------------------------------------


def _pull(
    asking: Asking, offset: int = 0, *, text: str, is_sql: bool = False, most: int = 100, wait_ms: int = 0
) -> asyncio.Future[Answer]:
    request = PullRequest(
        topic="orders", offset=offset, max_messages=most, wait_ms=wait_ms, filter=text, filter_is_sql=is_sql
    )
    return asking.channel.ask(Opcode.PULL, request.SerializeToString())


KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


@KINDS
@pytest.mark.parametrize("cold", [False, True])
def test_a_pull_skips_messages_that_the_filter_rejects(
    kind: Kind, cold: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create(queues=1)
            await ann.send(_records(100))
            if cold:
                monkeypatch.setattr(broker.context.store, "read_entries_if_hot", lambda *_: None)
            answer = await _pull(ann, text="C", most=3)
            assert _numbers(answer.attachment) == [4, 9, 14]
            assert PullAnswer.FromString(answer.header).next_offset == 15
            rest = await _pull(ann, 15, text="C")
            assert len(_numbers(rest.attachment)) == 17
            assert PullAnswer.FromString(rest.header).next_offset == 100
            nothing = await _pull(ann, 3, text="n > 1000", is_sql=True)
            assert (nothing.attachment, PullAnswer.FromString(nothing.header).next_offset) == (b"", 100)

    asyncio.run(main())


@KINDS
def test_a_pull_waits_for_a_match_and_reads_no_message_twice(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann, bob = Asking(broker, "ann"), Asking(broker, "bob")
            await ann.create(queues=1)
            await ann.send(_records(20))
            waiting = _pull(bob, text="Z", wait_ms=60_000)
            await asyncio.sleep(0)
            await ann.send(_records(20))
            assert [pull.offset for pulls in broker._long_polls._waiting.values() for pull in pulls] == [40]
            assert not waiting.done()
            await ann.send(encode_record(Record("orders", tags=("Z",), properties={"n": "7"})))
            answer = await asyncio.wait_for(waiting, HANG_S)
            assert _numbers(answer.attachment) == [7]
            assert PullAnswer.FromString(answer.header).next_offset == 41

    asyncio.run(main())


@KINDS
def test_an_invalid_filter_is_refused(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            with pytest.raises(Exception, match="cannot be read"):
                await _pull(ann, text="n >", is_sql=True)

    asyncio.run(main())
