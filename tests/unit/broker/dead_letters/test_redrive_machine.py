"""Redrive under any order of requests and stops.

Each dead letter ends once, and no message is lost or duplicated (I10).
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from litemq.broker.dead_letters.reading import DeadLetterReader
from litemq.broker.dead_letters.redrive import Redrive, Redrives
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.context import BrokerContext
from litemq.clock import FakeClock
from litemq.format.dead_letters import DeadSelection
from litemq.format.messages import decode_messages
from litemq.format.record_encode import RecordTemplate
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from support.callers import records
from support.dead_letters import Death, write_dead_letters
from support.replicas import assert_follower_agrees

GROUPS = st.sampled_from(["billing", "audit"])
WHICH = st.integers(
    0, 1 << 16
)  # of however many there are: how many died before a stop is a matter of time, and what is drawn must not be
CONFIG = StoreConfig(segment_bytes=8 << 20)


class RedriveMachine(RuleBasedStateMachine):
    """A topic of two queues; the model counts."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.sent = 0
        self.copies: Counter[str] = Counter()  # of each message in its topic
        self.dead: list[tuple[int, str, str]] = []  # log offset, message id, group
        self.open()

    def open(self) -> None:
        self.store = DiskStore(self.folder, CONFIG, self.clock)
        self.topic = self.store.create_topic("orders", 2)
        self.reader = DeadLetterReader(self.store)

    @rule(count=st.integers(1, 5), queue_id=st.integers(0, 1))
    def send(self, count: int, queue_id: int) -> None:
        appended = self.store.append(bytearray(records(count, first=self.sent)), self.topic.topic_id, queue_id)
        self.store.wait_confirmed(appended.end)
        self.copies.update(f"m-{number}" for number in range(self.sent, self.sent + count))
        self.sent += count

    @rule(group=GROUPS, queue_id=st.integers(0, 1), which=WHICH)
    def die(self, group: str, queue_id: int, which: int) -> None:
        key = QueueKey(self.topic.topic_id, queue_id)
        following = self.store.state.end_offsets.get(key, 0)
        if following:
            self.store.wait_confirmed(self.store.log_end)
            offset = which % following
            (died,) = decode_messages(bytes(self.store.read_queue(key, offset, 1)))
            (dead_letter,) = write_dead_letters(self.store, "orders", queue_id, [offset], Death(group=group))
            self.dead.append((dead_letter, died.message_id, group))

    @rule(group=GROUPS | st.just(""), drop=st.booleans(), dry_run=st.booleans(), at_once=st.integers(1, 3))
    def redrive(self, group: str, drop: bool, dry_run: bool, at_once: int) -> None:
        meant = [dead_letter for dead_letter in self.dead if not group or dead_letter[2] == group]

        async def main() -> list[Redrive]:
            redrives = Redrives(BrokerContext.create(self.store, self.clock, BrokerLimits()), self.reader)
            begun = [
                redrives.begin("orders", DeadSelection(group=group), dry_run=dry_run, drop=drop) for _ in range(at_once)
            ]
            await asyncio.gather(*(one.ended.wait() for one in begun))
            return begun

        redrives = asyncio.run(main())
        assert {one.state for one in redrives} == {"done"}
        assert sum(one.done for one in redrives) == (0 if dry_run else len(meant))
        if not dry_run:
            self.end(meant, drop=drop)

    @rule(drop=st.booleans(), which=WHICH, turns=st.integers(0, 3))
    def redrive_one_and_stop(self, drop: bool, which: int, turns: int) -> None:
        """Stop the broker during a redrive: only appended records count."""
        if self.dead:
            meant = self.dead[which % len(self.dead)]

            async def main() -> Redrive:
                redrives = Redrives(BrokerContext.create(self.store, self.clock, BrokerLimits()), self.reader)
                begun = redrives.begin(
                    "orders",
                    DeadSelection(message_ids=frozenset({meant[1]}), group=meant[2]),
                    drop=drop,
                    messages_per_s=1,
                )
                for _ in range(turns):
                    await asyncio.sleep(0.001)
                redrives.close()
                await begun.ended.wait()
                return begun

            redrive = asyncio.run(main())
            alike = [dead_letter for dead_letter in self.dead if dead_letter[1:] == meant[1:]]
            self.end(alike[: redrive.done], drop=drop)

    @rule(which=st.lists(WHICH, min_size=1, max_size=4))
    def redrive_edited(self, which: list[int]) -> None:
        """Send edited records for dead letters, some of which have already ended."""
        if self.dead:
            chosen = list({self.dead[one % len(self.dead)]: None for one in which})
            template = RecordTemplate("orders")
            batch = b"".join(template.encode(b"mended", message_id=message_id) for _, message_id, _ in chosen)

            async def main() -> list[list[bool]]:
                redrives = Redrives(BrokerContext.create(self.store, self.clock, BrokerLimits()), self.reader)
                offsets = [dead_letter[0] for dead_letter in chosen]
                return [await redrives.send_edited("orders", offsets, batch) for _ in range(2)]

            first, again = asyncio.run(main())
            assert (all(first), any(again)) == (True, False)
            self.end(chosen, drop=False)

    def end(self, dead_letters: list[tuple[int, str, str]], *, drop: bool) -> None:
        self.dead = [dead_letter for dead_letter in self.dead if dead_letter not in dead_letters]
        if not drop:
            self.copies.update(message_id for _, message_id, _ in dead_letters)

    @rule(lose_projections=st.booleans())
    def restart(self, lose_projections: bool) -> None:
        self.store.close()
        if lose_projections:
            for path in (*self.folder.glob("state.db*"), self.folder / "checkpoint"):
                path.unlink(missing_ok=True)
        self.open()

    @invariant()
    def nothing_is_lost_or_made(self) -> None:
        assert self.reader.count("orders") == len(self.dead)
        assert self.reader.after("orders", -1, 1 << 30) == [dead_letter[0] for dead_letter in self.dead]

    def teardown(self) -> None:
        found: Counter[str] = Counter()
        self.store.wait_confirmed(self.store.log_end)  # readers see confirmed records only
        for queue_id in range(2):
            key = QueueKey(self.topic.topic_id, queue_id)
            if key in self.store.state.end_offsets:
                found.update(
                    one.message_id for one in decode_messages(bytes(self.store.read_queue(key, 0, 1 << 30, 1 << 30)))
                )
        assert found == self.copies
        assert_follower_agrees(self.store)
        self.store.close()
        shutil.rmtree(self.folder)


TestRedrive = RedriveMachine.TestCase
TestRedrive.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
