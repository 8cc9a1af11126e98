"""A replicated group without elections for tests: a master on TCP, and followers of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker
from litemq.broker.replication.log_session import CopyNeeded, LogSession
from litemq.broker.replication.shipping import ReplicaNames, Shipping
from litemq.clock import Clock, SystemClock
from litemq.errors import LiteMQError, NotMasterError
from litemq.format.record_encode import encode_record
from litemq.net.client import Peer
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, Session
from litemq.storage.config import StoreConfig
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.replicas import open_replica
from support.stores import CONFIG
from support.waiting import eventually

__all__ = [
    "GROUP",
    "LEFT",
    "Master",
    "all_have",
    "close_stores",
    "following",
    "open_stores",
    "send_bodies",
    "serving",
]

GROUP = "orders"
LEFT = NotMasterError("another replica was elected")


def open_stores(folder: Path, *names: str, config: StoreConfig = CONFIG) -> list[ReplicaStore]:
    return [open_replica(folder / name, config, SystemClock()) for name in names]


def send_bodies(store: ReplicaStore, *bodies: bytes) -> int:
    """Append messages to a topic; return the log's end."""
    topic = store.create_topic("orders", 1)
    batch = bytearray(b"".join(encode_record(Record("orders", body)) for body in bodies))
    return store.append(batch, topic.topic_id, 0).end


def close_stores(*stores: ReplicaStore) -> None:
    for store in stores:
        store.abandon()


class Master:
    """A store that begins ``epoch``, and ships its log on a free port."""

    def __init__(
        self,
        store: ReplicaStore,
        members: Sequence[ReplicaStore],
        *,
        epoch: int = 1,
        unclean: bool = False,
        min_in_sync: int = 2,
        clock: Clock | None = None,
        catch_up_bytes_per_s: int = 0,
        names: ReplicaNames | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.store = store
        begun = store.begin_writing(epoch, unclean=unclean)
        self.in_sync = InSyncTracker(
            store.store_id,
            begun.end,
            InSyncSet(frozenset(member.store_id for member in (store, *members)), 1),
            min_in_sync=min_in_sync,
            max_lag_ns=2_000_000_000,
            now=clock.elapsed_ns(),
        )
        self.shipping = Shipping(
            store, self.in_sync, clock, group=GROUP, catch_up_bytes_per_s=catch_up_bytes_per_s, names=names
        )
        self._calls = {handler.opcode: handler.call for handler in self.shipping.handlers}
        self._server = FrameServer(self._handle, software="test", on_session_end=self.shipping.caller_gone)
        self.port = 0

    def _handle(self, session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            try:
                self._calls[frame.opcode](session, frame)
            except LiteMQError as error:
                session.refuse(frame, error)

    async def start(self) -> None:
        _, self.port = await self._server.start("127.0.0.1", 0)

    async def close(self) -> None:
        self.shipping.close()
        await self._server.close()

    async def connect(self) -> Peer:
        return await Peer.connect("127.0.0.1", self.port, client_id="follower")

    async def follow(self, store: ReplicaStore) -> CopyNeeded:
        """Let ``store`` follow over a connection of its own, until that ends."""
        peer = await self.connect()
        try:
            return await LogSession(store, peer, group=GROUP).run()
        finally:
            peer.close()


@asynccontextmanager
async def serving(
    store: ReplicaStore,
    members: Sequence[ReplicaStore] = (),
    *,
    epoch: int = 1,
    unclean: bool = False,
    min_in_sync: int = 2,
    clock: Clock | None = None,
    catch_up_bytes_per_s: int = 0,
    names: ReplicaNames | None = None,
) -> AsyncIterator[Master]:
    """Let ``store`` be the master of ``epoch``, with ``members`` in its in-sync set."""
    master = Master(
        store,
        members,
        epoch=epoch,
        unclean=unclean,
        min_in_sync=min_in_sync,
        clock=clock,
        catch_up_bytes_per_s=catch_up_bytes_per_s,
        names=names,
    )
    await master.start()
    try:
        yield master
    finally:
        await master.close()


@asynccontextmanager
async def following(master: Master, store: ReplicaStore) -> AsyncIterator[asyncio.Task[CopyNeeded]]:
    """Let ``store`` follow in the background."""
    task = asyncio.create_task(master.follow(store))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LiteMQError):
            await task


async def all_have(master: ReplicaStore, *stores: ReplicaStore) -> None:
    """Wait until everything in the master's log is confirmed on all stores."""
    await eventually(lambda: all(store.confirm_offset == master.log_end for store in (master, *stores)))
