"""A broker under the fuzzer: several clients, any requests, any passing of time."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from fuzz.servers.choices import Choices
from fuzz.servers.client import Client, Tally
from fuzz.servers.request_maker import TRANSACTIONS, RequestMaker
from fuzz.servers.virtual_loop import VirtualLoop

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker
from litemq.broker.replication.shipping import Shipping
from litemq.broker.replication.stretches import StretchRequests
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.format.record_encode import encode_record
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import (
    CreateTopicRequest,
    JoinRequest,
    LeaseRequest,
    Opcode,
    PutJobsRequest,
    ReplicaReport,
    SendHalfRequest,
    SendRequest,
    SettleRequest,
    TopicSettings,
)
from litemq.server.replica.group_link import GroupLink
from litemq.server.replica.hand_over import HandOver
from litemq.server.replica.held_requests import HeldRequests
from litemq.server.replica.lease import MasterLease
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.memory_store import MemoryStore
from litemq.storage.replica_store import ReplicaStore
from litemq.types import MessageType, Record

__all__ = ["BrokerService"]

_CLIENTS: Final = 3
_MAX_STEPS: Final = 48  # of one input
_SECONDS: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 1.0, 5.0, 10.0, 60.0, 600.0, 3_600.0, 86_400.0)
# Small limits, so that a few requests reach them.
_LIMITS: Final = BrokerLimits(
    auto_create_topics=True,
    max_waiting_pulls=8,
    max_group_members=4,
    max_memberships=6,
    max_in_flight=20,
    max_moved_timers=4,
    max_cancelled_batches=2,
    max_transactions=6,
    max_transaction_messages=8,
    max_half_runs=20,
    max_winners=8,
    max_jobs=8,
    max_check_pollers=4,
    max_backlog=1_000,
    trace="all",
)
_SMALL: Final = StoreConfig(
    segment_bytes=135_168, max_record_bytes=65_536, index_slots=64, index_entries=256, checkpoint_interval_ms=0
)
_MONTH_MS: Final = 30 * 86_400_000
_LONGEST_WAIT_S: Final = 2 * _LIMITS.max_pull_wait_ms / 1000  # the broker's clock may run more slowly
_ANSWERED_WITHIN_S: Final = 60.0  # real time, for the threads of a store on disk


class _QuickDisk(Disk):
    """A disk that syncs nothing: the fuzzer cuts no power."""

    def fsync(self, file: OpenFile) -> None:
        pass

    def sync_all(self, path: Path) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class BrokerService:
    """A broker over a new store, with topics, messages and a job.

    The store is in memory, or on disk: then the broker is the master of a group.
    """

    def __init__(self, loop: VirtualLoop, tally: Tally, *, on_disk: bool = False) -> None:
        self._loop = loop
        self._tally = tally
        self._folder = Path(tempfile.mkdtemp(prefix="litemq-fuzz-")) if on_disk else None
        self._maker = RequestMaker(loop.clock)
        loop.play(self._begin())
        self.opcodes = sorted(self._broker.handlers)

    async def _begin(self) -> None:
        await self._start()
        await self._populate()
        first = self._clients[0]
        sent = SendRequest(topic="orders").SerializeToString()
        plain = b"".join(
            encode_record(Record("orders", b"body", f"m-{number}", ("a",), ("k",), {"p": "q", "n": "4"}))
            for number in range(4)
        )
        due = self._loop.clock.wall_ms() + _MONTH_MS
        delayed = encode_record(Record("orders", b"later", "m-9", delay_time=due, properties={"p": "q"}))
        half = encode_record(
            Record("orders", b"half", "m-8", type=MessageType.TRANSACTION, transaction_id=TRANSACTIONS[0])
        )
        first.send(
            [
                (Opcode.SEND, 0, sent, plain),
                (Opcode.SEND, 0, sent, delayed),
                (Opcode.SEND_HALF, 0, SendHalfRequest(topic="orders", queue_ids=[0]).SerializeToString(), half),
            ]
        )
        await self._settle()
        await self._make_dead_letter(first)

    async def _populate(self) -> None:
        """Make what most requests name: two topics, a job and a member of a group.

        Earlier inputs may have deleted them.
        """
        orders = CreateTopicRequest(topic="orders")
        ranked = CreateTopicRequest(topic="ranked", queues=1, settings=TopicSettings(has_priorities=True))
        job = JobDefinition(id="job-1", every_ms=60_000, topic="orders", group="jobs")
        member = JoinRequest(group="shop", topic="orders", member="m1")
        self._clients[0].send(
            [
                (Opcode.CREATE_TOPIC, 0, orders.SerializeToString(), b""),
                (Opcode.CREATE_TOPIC, 0, ranked.SerializeToString(), b""),
                (Opcode.PUT_JOBS, 0, PutJobsRequest(jobs=[job]).SerializeToString(), b""),
                (Opcode.JOIN_GROUP, 0, member.SerializeToString(), b""),
            ]
        )
        self._maker.prefer(topic="orders", group="shop", member="m1", id="job-1", query="q")
        await self._settle()

    async def _make_dead_letter(self, client: Client) -> None:
        """Lease a message and fail it for good."""
        lease = LeaseRequest(topic="orders", group="shop", max_messages=1, max_bytes=9999, lease_ms=60_000)
        client.send([(Opcode.LEASE, 0, lease.SerializeToString(), b"")])
        await self._settle()
        settle = SettleRequest(topic="orders", group="shop")
        failed = settle.failed.add(queue_id=0, offset=0, is_final=True, error="Error: no", stack="at line 1")
        failed.token = self._maker.last("token")
        client.send([(Opcode.SETTLE, 0, settle.SerializeToString(), b"")])
        await self._settle()

    async def _start(self) -> None:
        clock = BrokerClock(self._loop.clock)
        self._store: MemoryStore | ReplicaStore
        if self._folder is None:
            self._store = MemoryStore(clock)
            self._broker = Broker(self._store, clock, _LIMITS)
        else:
            self._store = store = ReplicaStore(self._folder, _SMALL, clock, disk=_QuickDisk())
            begun = store.begin_writing(store.last_epoch + 1).end
            alone = InSyncSet(frozenset({store.store_id}), 1)
            in_sync = InSyncTracker(store.store_id, begun, alone, min_in_sync=1, max_lag_ns=0, now=0)
            shipping = Shipping(store, in_sync, clock, group="shop")
            await store.confirmed(begun)
            self._broker = Broker(store, clock, _LIMITS)
            self._stretches = StretchRequests("shop", store)
            self._broker.ship(shipping, self._stretches.handler, self._switch(store, in_sync, clock).handler)
        self._clients = [self._client(number) for number in range(_CLIENTS)]

    def _switch(self, store: ReplicaStore, in_sync: InSyncTracker, clock: BrokerClock) -> HandOver:
        """Return the switch of a master that is alone: it refuses what it is asked for."""
        link = GroupLink([], ReplicaReport)
        held = HeldRequests(lambda *_: None)
        return HandOver(
            "shop",
            store,
            in_sync,
            link,
            MasterLease(clock),
            held,
            clock,
            settle=lambda _set: None,
            on_handed_over=lambda: None,
        )

    def _client(self, number: int) -> Client:
        return Client(f"client-{number}", self._broker, self._maker, self._tally)

    def play(self, data: bytes) -> None:
        """Play one input."""
        self._loop.play(self._play(Choices(data)))

    async def _play(self, choices: Choices) -> None:
        await self._populate()
        number = 0
        for _ in range(_MAX_STEPS):
            if choices.is_over:
                break
            step = choices.byte() % 16
            client = self._clients[number]
            if step < 8:
                client.send([client.make_request(self.opcodes, choices)])
                await self._settle()
            elif step < 10:
                client.send([client.make_request(self.opcodes, choices) for _ in range(1 + choices.byte() % 4)])
            elif step < 12:
                await self._advance(choices.pick(_SECONDS))
            elif step == 12:
                number = choices.byte() % _CLIENTS
            elif step == 13:
                client.leave()
                self._clients[number] = self._client(number)
            elif step == 14:
                client.read_answers(is_reading=not client.is_writable)
            else:
                await self._maintain(choices)
        await self._check_answers()

    async def _maintain(self, choices: Choices) -> None:
        """Set the wall clock back, or run a job of the store's maintenance, or restart."""
        how = choices.byte() % 8
        if isinstance(self._store, MemoryStore) or how < 2:
            self._loop.clock.step_wall(-choices.pick(_SECONDS[:9]))
        elif how < 4:
            self._store.checkpoint()
        elif how == 4:
            self._store.snapshot()
        elif how == 5:
            self._store.retain(max_bytes=140_000)
        else:
            await self._stop()
            await self._start()

    async def _advance(self, seconds: float) -> None:
        self._loop.clock.advance(seconds)
        await self._settle()

    async def _settle(self) -> None:
        await self._loop.settle()
        if isinstance(self._store, ReplicaStore):
            self._store.wait_confirmed(self._store.log_end)
            await self._loop.settle()

    async def _check_answers(self) -> None:
        """Let the longest wait pass: then every request must have its answer."""
        for client in self._clients:
            client.read_answers(is_reading=True)
        await self._settle()
        await self._advance(_LONGEST_WAIT_S)
        until = time.monotonic() + _ANSWERED_WITHIN_S
        while any(client.is_waiting for client in self._clients):
            if self._folder is None or time.monotonic() > until:
                break
            time.sleep(0.001)  # noqa: ASYNC251  the loop's time is virtual
            await self._settle()
        for client in self._clients:
            client.check_answered()

    async def _stop(self) -> None:
        await self._check_answers()
        self._broker.close()
        if self._folder is not None:
            self._stretches.close()
        await self._loop.settle()
        self._store.close()

    def close(self) -> None:
        """Stop the broker and delete its data."""
        self._loop.play(self._stop())
        if self._folder is not None:
            shutil.rmtree(self._folder)
