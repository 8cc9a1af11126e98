"""Replicas' stores agree after any order of append, ship, cut, crash and switch."""

from __future__ import annotations

import random
from pathlib import Path

from litemq.clock import FakeClock
from litemq.errors import NotMasterError
from litemq.format.record_encode import encode_record
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.replicas import assert_same, open_replica, ship
from support.stores import CONFIG, read_bodies

LEFT = NotMasterError("another replica was elected")


class _Pair:
    """Two replicas that are both in the in-sync set; ``epoch`` rises with each election."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chosen = random.Random(seed)
        self.folder = folder
        self.clock = FakeClock()
        self.stores = [self._open(0), self._open(1)]
        self.epoch = 1
        self.sent = 0
        self.read: dict[int, list[bytes]] = {0: [], 1: []}
        self.counts = dict.fromkeys(["append", "ship", "confirm", "checkpoint", "crash", "switch", "cut"], 0)
        self.stores[0].begin_writing(self.epoch)

    def _open(self, number: int) -> ReplicaStore:
        return open_replica(self.folder / f"replica-{number}", CONFIG, self.clock)

    @property
    def master(self) -> ReplicaStore | None:
        return next((store for store in self.stores if not store.follows), None)

    def step(self) -> None:
        what = self.chosen.choices(list(self.counts), [8, 8, 6, 3, 1, 1, 0])[0]
        getattr(self, what)()
        self.counts[what] += 1

    def append(self) -> None:
        if self.master is not None:
            bodies = [b"%d" % (self.sent + n) + bytes(self.chosen.choice([0, 10, 2500])) for n in range(3)]
            self.sent += 3
            topic = self.master.create_topic("orders", 2)
            batch = b"".join(encode_record(Record("orders", body)) for body in bodies)
            self.master.append(bytearray(batch), topic.topic_id, self.chosen.randrange(2))
            if self.chosen.random() < 0.2:
                self.master.snapshot()

    def _follow(self) -> None:
        """Cut the followers' logs where they differ from the master's."""
        master = self.master
        if master is None:
            return
        for store in self.stores:
            if store is not master and store.log_end:
                common = _common_end(store, master)
                if common < store.log_end:
                    store.cut(common)
                    self.counts["cut"] += 1

    def ship(self) -> None:
        if self.master is not None:
            self._follow()
            for store in self.stores:
                if store is not self.master:
                    ship(self.master, store, self.chosen.choice([1, 3000, 1 << 20]), self.chosen.randint(1, 5))

    def confirm(self) -> None:
        """Confirm what both have flushed, once that includes the epoch's first record."""
        master = self.master
        if master is None:
            return
        self._follow()
        for store in self.stores:
            store._flusher.wait(store.log_end, 10)
        both = min(store.log_end for store in self.stores)
        if both > master.epochs[-1].start_offset:
            for store in self.stores:
                store.confirmation.advance(both)
        self.look()

    def checkpoint(self) -> None:
        self.chosen.choice(self.stores).checkpoint()

    def crash(self) -> None:
        number = self.chosen.randrange(2)
        self.stores[number].abandon()
        self.stores[number] = self._open(number)
        if self.master is None:
            self.switch()

    def switch(self) -> None:
        """Elect one that has everything confirmed: both are in the set, so either does."""
        if self.master is not None:
            self.master.stop_writing(LEFT)
        self.epoch += 1
        best = max(self.stores, key=lambda store: (store.last_epoch, store.log_end))
        chosen = best if self.chosen.random() < 0.5 else self.chosen.choice(self.stores)
        if chosen.log_end >= max(store.confirm_offset for store in self.stores):
            chosen.begin_writing(self.epoch)
        else:
            best.begin_writing(self.epoch)

    def look(self) -> None:
        """What was read once is read again, on either (I2)."""
        for store in self.stores:
            for queue, before in self.read.items():
                if store.state.topic("orders") is not None:
                    found = read_bodies(store, "orders", queue)
                    assert found[: len(before)] == before[: len(found)]
                    self.read[queue] = max(before, found, key=len)

    def settle(self) -> None:
        if self.master is None:
            self.switch()
        self._follow()
        assert self.master is not None
        for store in self.stores:
            if store is not self.master:
                ship(self.master, store, 4000)
        self.confirm()
        assert_same(*self.stores)
        for store in self.stores:
            store.close()
        again = [self._open(0), self._open(1)]
        assert_same(*again)
        for store in again:
            store.abandon()


def _common_end(store: ReplicaStore, master: ReplicaStore) -> int:
    """Return the end of the part that two logs have in common, from their epochs."""
    mine, other = ({e.number: e.start_offset for e in each.epochs} for each in (store, master))
    for number in sorted(mine, reverse=True):
        if number in other:
            ends = [
                min([start for later, start in epochs.items() if later > number], default=each.log_end)
                for epochs, each in ((mine, store), (other, master))
            ]
            return min(ends)
    return 0


def test_replicas_agree_after_any_order_of_events(tmp_path: Path) -> None:
    total: dict[str, int] = {}
    for seed in range(60):
        pair = _Pair(tmp_path / str(seed), seed)
        try:
            for _ in range(60):
                pair.step()
            pair.settle()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        for what, count in pair.counts.items():
            total[what] = total.get(what, 0) + count
    assert min(total.values()) > 20, total
