"""Reads from a follower: below its confirm offset, without a group, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from litemq.broker.limits import BrokerLimits
from litemq.broker.read_only import ReadOnlyBroker
from litemq.clock import SystemClock
from litemq.errors import LiteMQError, NotMasterError
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.net.client import Peer
from litemq.net.frame import Frame
from litemq.net.request_channel import Answer
from litemq.net.server import FrameServer, Session
from litemq.proto.wire_pb2 import (
    FindRequest,
    OffsetAnswer,
    OffsetAtTimeRequest,
    Opcode,
    PullAnswer,
    PullRequest,
    TopicAnswer,
    TopicRequest,
)
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.on_loop import on_loop
from support.replicas import confirm_all, open_replica, ship
from support.stores import CONFIG
from support.waiting import HANG_S, eventually


def _append(store: ReplicaStore, body: bytes) -> None:
    topic = store.create_topic("orders", 1)
    store.append(bytearray(encode_record(Record("orders", body, f"m-{body.decode()}"))), topic.topic_id, 0)


class _Follower:
    """A master without a network, a follower of it, and a client that reads from the follower."""

    def __init__(self, master: ReplicaStore, store: ReplicaStore, reads: ReadOnlyBroker, peer: Peer) -> None:
        self.master, self.store, self.reads, self.peer = master, store, reads, peer

    def receive(self, *bodies: bytes) -> None:
        """Let the follower receive messages that are not confirmed."""
        for body in bodies:
            _append(self.master, body)
        ship(self.master, self.store, 1 << 20)

    def ask(self, opcode: int, header: bytes) -> asyncio.Future[Answer]:
        return self.peer.ask(opcode, header)

    def pull(self, offset: int, wait_ms: int = 0, **fields: object) -> asyncio.Future[Answer]:
        asked = PullRequest(topic="orders", queue_id=0, offset=offset, max_messages=10, wait_ms=wait_ms)
        for name, value in fields.items():
            setattr(asked, name, value)
        return self.ask(Opcode.PULL, asked.SerializeToString())


@asynccontextmanager
async def _follower(folder: Path) -> AsyncIterator[_Follower]:
    master, store = (open_replica(folder / name, CONFIG, SystemClock()) for name in ("master", "follower"))
    master.begin_writing(1)
    _append(master, b"0")
    ship(master, store, 1 << 20)
    confirm_all(store)
    reads = ReadOnlyBroker(store, SystemClock(), BrokerLimits())

    def handle(session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            try:
                reads.handlers[frame.opcode].call(session, frame)
            except LiteMQError as error:
                session.refuse(frame, error)

    server = FrameServer(handle, software="test", on_session_end=reads.caller_gone)
    _, port = await server.start("127.0.0.1", 0)
    peer = await Peer.connect("127.0.0.1", port, client_id="reader")
    try:
        yield _Follower(master, store, reads, peer)
    finally:
        peer.close()
        await server.close()
        reads.close()
        master.abandon()
        store.abandon()


def _bodies(answer: Answer) -> list[bytes]:
    data, at, found = answer.attachment, 0, []
    while at < len(data):
        found.append(decode_record(data, at).record.body)
        at += int.from_bytes(data[at : at + 4], "big")
    return found


@on_loop
async def test_unconfirmed_messages_are_not_read(tmp_path: Path) -> None:
    """As on a follower that is cut off from its master: another master may not have them."""
    async with _follower(tmp_path) as follower:
        follower.receive(b"1", b"2")
        store = follower.store
        store._flusher.wait(store.log_end, HANG_S)
        assert store.confirm_offset < store.log_end
        assert _bodies(await follower.pull(0)) == [b"0"]
        assert _bodies(await follower.pull(1, wait_ms=50)) == []
        for key, expected in (("m-0", [b"0"]), ("m-1", [])):
            asked = FindRequest(topic="orders", key=key)
            assert _bodies(await follower.ask(Opcode.FIND, asked.SerializeToString())) == expected
        described = await follower.ask(Opcode.DESCRIBE_TOPIC, TopicRequest(topic="orders").SerializeToString())
        assert TopicAnswer.FromString(described.header).queues[0].confirmed == 1
        confirm_all(store)
        assert _bodies(await follower.pull(0)) == [b"0", b"1", b"2"]
        asked_at = OffsetAtTimeRequest(topic="orders", queue_id=0, store_timestamp=1)
        answer = await follower.ask(Opcode.OFFSET_AT_TIME, asked_at.SerializeToString())
        assert OffsetAnswer.FromString(answer.header).offset == 0


@on_loop
async def test_a_reader_waits_for_the_confirmation(tmp_path: Path) -> None:
    async with _follower(tmp_path) as follower:
        waiting = follower.pull(1, wait_ms=60_000)
        await eventually(lambda: follower.reads._long_polls.waiting == 1)
        follower.receive(b"1")
        follower.store._flusher.wait(follower.store.log_end, HANG_S)
        await asyncio.sleep(0)  # it is received, and not confirmed
        assert not waiting.done()
        confirm_all(follower.store)
        assert _bodies(await waiting) == [b"1"]


@on_loop
async def test_a_former_master_serves_readers(tmp_path: Path) -> None:
    """The waiters of a master get an error at its end; those of the follower wait again."""
    async with _follower(tmp_path) as follower:
        follower.reads.close()
        follower.store.begin_writing(2)
        follower.store.stop_writing(NotMasterError("another one was elected"))
        reads = ReadOnlyBroker(follower.store, SystemClock(), BrokerLimits())
        assert follower.store.confirmation.refusal is None
        reads.close()


@on_loop
async def test_reads_for_a_group_are_refused(tmp_path: Path) -> None:
    async with _follower(tmp_path) as follower:
        with pytest.raises(NotMasterError):
            await follower.pull(0, group="shop")
        with pytest.raises(NotMasterError):
            await follower.pull(0, is_retry=True)
        assert set(follower.reads.handlers) == {
            Opcode.PULL,
            Opcode.FIND,
            Opcode.OFFSET_AT_TIME,
            Opcode.DESCRIBE_TOPIC,
            Opcode.LIST_TOPICS,
        }
        assert PullAnswer.FromString((await follower.pull(0)).header).range.least == 0  # the connection is open
