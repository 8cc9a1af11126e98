"""Scenarios in which retention runs beside a decision, each with the promise that it checks."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from litemq.broker.broker import Broker
from litemq.clock import FakeClock
from litemq.errors import LiteMQError, OffsetExpiredError
from litemq.proto.wire_pb2 import FollowRedriveRequest, Opcode, PullRequest, RedriveAnswer, RedriveRequest
from litemq.storage.disk_store import DiskStore
from litemq.storage.log.flush import LINGER_S
from litemq.storage.state import QueueKey
from litemq.types import Durability
from support.callers import Asking, records
from support.dead_letters import Death, write_dead_letters
from support.halves import Job, attempt, halves
from support.leases import Got, Leaser
from support.power_cut import states_after
from support.quick_disk import QuickDisk
from support.schedules.stage import CONFIG, Scenario, Stage, play
from support.transactions import Producer, half, name_of

_BODY: Final = bytes(3000)
_HOUR_S: Final = 3600


class Accepted(NamedTuple):
    """A message whose nack was confirmed, and the number of disk operations by then."""

    message_id: str
    operations: int


def _end_offset(stage: Stage, topic: str) -> int:
    facts = stage.store.state.topic(topic)
    assert facts is not None
    return stage.store.state.end_offsets.get(QueueKey(facts.topic_id, 0), 0)


async def _nack_beside_retention(stage: Stage, accepted: list[Accepted]) -> Leaser:
    leaser = Leaser(stage.broker)
    await leaser.create("orders", 1)
    await stage.send("orders", 12)
    await stage.send("orders", 12, first=12)
    got = await leaser.ask_for(24, lease_ms=60_000)
    await stage.fill(3)

    async def nack(some: list[Got]) -> None:
        refused = {offset for offset, _ in await leaser.fail(*some, delay_ms=20)}
        operations = len(stage.disk.operations)
        accepted.extend(Accepted(one.message_id, operations) for one in some if one.offset not in refused)

    retention = stage.retain_in_background(2)
    for at in range(0, len(got), 4):
        await asyncio.sleep(stage.scheduler.random.random() * 0.002)
        await nack(got[at : at + 4])
    await stage.ended(retention)
    return leaser


async def _lease(leaser: Leaser, wait_ms: int = 0) -> list[Got]:
    try:
        return await leaser.ask_for(100, wait_ms=wait_ms)
    except OffsetExpiredError:  # some messages that were never settled are gone; reported once
        return []


async def nacks(stage: Stage) -> None:
    """A message whose nack was accepted is delivered again."""
    accepted: list[Accepted] = []
    leaser = await _nack_beside_retention(stage, accepted)
    missing = {each.message_id for each in accepted}
    for _ in range(40):
        again = await _lease(leaser, wait_ms=50)
        missing -= {one.message_id for one in again}
        if again:
            await leaser.ack(*again)
        if not missing:
            break
    assert not missing, f"{len(missing)} of {len(accepted)} accepted nacks are lost: {sorted(missing)}"


async def _check_published(stage: Stage, committed: int) -> None:
    await stage.until(lambda: _end_offset(stage, "orders") >= committed, 5)
    published = _end_offset(stage, "orders")
    assert published == committed, f"{committed} records are committed, but {published} published"


async def sinks(stage: Stage) -> None:
    """A batch whose commit was answered is published, each record once."""
    job = Job(stage.broker)
    await job.create("orders", 1)
    committed = 0
    await stage.fill(1)
    for batch in range(3):
        await job.send_halves(halves(attempt(batch), 4, body=_BODY), attempt(batch))
        await stage.fill(4)
        retention = stage.retain_in_background(1)
        await asyncio.sleep(stage.scheduler.random.random() * 0.002)
        try:
            await job.commit(batch, (0, 0, 4))
            committed += 4
        except LiteMQError:
            pass  # retention has rolled it back
        await stage.ended(retention)
    await _check_published(stage, committed)


async def transactions(stage: Stage) -> None:
    """A producer's transaction that was committed is published, each record once."""
    producer = Producer(stage.broker)
    await producer.create("orders", 1)
    names = [name_of(number) for number in range(8)]
    for name in names:
        await producer.send_halves(half(name, 0, body=_BODY) + half(name, 1, body=_BODY), 0, 0)
    await stage.fill(4)
    retention = stage.retain_in_background(2)
    for name in names:
        await asyncio.sleep(stage.scheduler.random.random() * 0.001)
        await producer.commit(name, count=2)
    await stage.ended(retention)
    await _check_published(stage, 2 * len(names))


async def redrives(stage: Stage) -> None:
    """A dead letter is redriven once, or it is still there."""
    asking = Asking(stage.broker)
    await asking.create("orders", 1)
    await stage.send("orders", 8)
    write_dead_letters(stage.store, "orders", 0, range(8), Death(dead_at=stage.clock.wall_ms()))
    await stage.fill(4)
    retention = stage.retain_in_background(2)
    await asyncio.sleep(stage.scheduler.random.random() * 0.002)
    request = RedriveRequest(topic="orders").SerializeToString()
    answer = RedriveAnswer.FromString((await asking.channel.ask(Opcode.REDRIVE, request)).header)
    while answer.state == "running":
        follow = FollowRedriveRequest(redrive_id=answer.redrive_id, wait_ms=20).SerializeToString()
        answer = RedriveAnswer.FromString((await asking.channel.ask(Opcode.FOLLOW_REDRIVE, follow)).header)
    await stage.ended(retention)
    assert answer.state == "done"
    redriven, left = _end_offset(stage, "orders") - 8, len(stage.store.state.parts.dead_letters)
    assert (redriven, redriven + left) == (answer.done, 8), (
        f"of 8 dead letters, {redriven} are redriven and {left} left"
    )


async def timers(stage: Stage) -> None:
    """A delayed message is delivered once."""
    asking = Asking(stage.broker)
    await asking.create("orders", 1)
    now = stage.clock.wall_ms()
    for number in range(8):
        await asking.send(records(1, first=number, body=_BODY, delay_time=now + 20 + 3 * number))
    await stage.fill(4)
    retention = stage.retain_in_background(2)
    await stage.ended(retention)
    await stage.until(lambda: _end_offset(stage, "orders") >= 8, 5)
    await asyncio.sleep(0.1)
    fired = _end_offset(stage, "orders")
    assert fired == 8, f"8 messages are delayed, and {fired} delivered"


async def arrivals(stage: Stage) -> None:
    """A message is delivered to a waiting consumer as soon as it is on disk."""
    leaser = Leaser(stage.broker)
    await leaser.create("orders", 1)
    for number in range(10):
        await leaser.send(records(1, first=number, level=Durability.MEMORY))
        await asyncio.sleep(_about_the_sync(stage))
        began = stage.clock.wall_ms()
        got = await leaser.ask_for(1, wait_ms=30_000, lease_ms=60_000)
        late = stage.clock.wall_ms() - began
        assert got, "nothing was delivered"
        assert late < 100, f"a message was delivered after {late} ms"


def _about_the_sync(stage: Stage) -> float:
    """Return the seconds from a send at level memory to about its sync."""
    return LINGER_S + (stage.scheduler.random.random() - 0.25) * 0.0004


async def pulls(stage: Stage) -> None:
    """The same for a consumer that waits with a pull."""
    asking = Asking(stage.broker)
    await asking.create("orders", 1)
    for number in range(10):
        await asking.send(records(1, first=number, level=Durability.MEMORY))
        await asyncio.sleep(_about_the_sync(stage))
        began = stage.clock.wall_ms()
        request = PullRequest(topic="orders", queue_id=0, offset=number, max_messages=1, wait_ms=30_000)
        answer = await asking.channel.ask(Opcode.PULL, request.SerializeToString())
        late = stage.clock.wall_ms() - began
        assert answer.attachment, "nothing was delivered"
        assert late < 100, f"a message was delivered after {late} ms"


async def expiries(stage: Stage) -> None:
    """Messages whose lease expires are delivered at once to a consumer that waits for them."""
    leaser = Leaser(stage.broker)
    await leaser.create("orders", 4)
    for number in range(4):
        await leaser.send(records(10, first=10 * number), number)
    random_ms = stage.scheduler.random.randrange
    ends: dict[str, int] = {}
    while len(ends) < 40:
        for one in await leaser.ask_for(random_ms(5, 41), wait_ms=50, lease_ms=1000 + random_ms(20)):
            ends[one.message_id] = one.deadline
        await asyncio.sleep(random_ms(8) / 1000)
    left = dict(ends)
    while left:
        again = await leaser.ask_for(40, wait_ms=30_000, lease_ms=60_000)
        now = stage.clock.wall_ms()
        late = max((now - left.pop(one.message_id) for one in again), default=now - min(left.values()))
        assert late < 100, f"messages were delivered {late} ms after their lease expired"
        if again:
            await leaser.ack(*again)


def power_cut(seed: int, folder: Path) -> None:
    """After a power cut beside retention, a message whose nack was accepted is delivered again."""
    accepted: list[Accepted] = []

    async def until_the_cut(stage: Stage) -> None:
        await _nack_beside_retention(stage, accepted)

    before, after = folder / "before", folder / "after"
    operations = play(until_the_cut, seed, before).operations
    chosen = random.Random(seed)
    cut = chosen.randrange(accepted[0].operations if accepted else 0, len(operations) + 1)
    state = chosen.choice(list(itertools.islice(states_after(operations[:cut]), 8)))
    state.write_to(before, after)
    expected = {each.message_id for each in accepted if each.operations <= cut}
    missing = expected - asyncio.run(_delivered_later(after))
    assert not missing, f"{len(missing)} of {len(expected)} accepted nacks are lost: {sorted(missing)}"


async def _delivered_later(directory: Path) -> set[str]:
    """Return the ids that a broker of ``directory`` delivers an hour later."""
    clock = FakeClock(1_700_000_000_000 + _HOUR_S * 1000)
    store = DiskStore(directory, CONFIG, clock, disk=QuickDisk(), host="here")
    broker = Broker(store, clock)
    leaser = Leaser(broker)
    found: set[str] = set()
    for _ in range(3):
        await broker.fire_due()
        await store.confirmed(store.log_end)
        found |= {one.message_id for one in await _lease(leaser)}
    broker.close()
    store.close()
    return found


def _played(scenario: Scenario) -> Callable[[int, Path], None]:
    def run(seed: int, folder: Path) -> None:
        play(scenario, seed, folder)

    return run


SCENARIOS: Final[dict[str, Callable[[int, Path], None]]] = {
    **{
        scenario.__name__: _played(scenario)
        for scenario in (nacks, sinks, transactions, redrives, timers, arrivals, pulls, expiries)
    },
    "power_cut": power_cut,
}
