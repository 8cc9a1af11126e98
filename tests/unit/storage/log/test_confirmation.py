"""The confirm offset of a replica's log: who moves it, and who hears of it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import (
    LiteMQError,
    NotConfirmedError,
    NotEnoughReplicasError,
    NotMasterError,
    OffsetOutOfRangeError,
    StoreFailedError,
)
from litemq.storage.replica_store import ReplicaStore
from support.on_loop import on_loop
from support.replicas import open_replica
from support.stores import CONFIG
from support.waiting import HANG_S

LEFT = NotMasterError("another replica was elected")


@pytest.fixture
def store(tmp_path: Path) -> ReplicaStore:
    store = open_replica(tmp_path, CONFIG, FakeClock())
    store.begin_writing(1)
    store._flusher.wait(store.log_end, HANG_S)
    return store


def _watch(store: ReplicaStore, offset: int, heard: list[LiteMQError | None]) -> None:
    store.when_confirmed(offset, heard.append)


@on_loop
async def test_waiters_hear_in_the_order_of_their_offsets(store: ReplicaStore) -> None:
    end = store.log_end
    later = store.create_topic("orders", 1) and store.log_end
    heard: list[str] = []
    store.when_confirmed(later, lambda _error: heard.append("later"))
    store.when_confirmed(end, lambda _error: heard.append("first"))
    await _flushed(store)
    assert heard == []
    store.confirmation.advance(end)
    assert heard == ["first"]
    store.confirmation.advance(end - 1)  # it never goes back
    assert store.confirm_offset == end
    store.confirmation.advance(later)
    assert heard == ["first", "later"]
    store.when_confirmed(later, lambda _error: heard.append("at once"))
    assert heard[-1] == "at once"
    store.abandon()


async def _flushed(store: ReplicaStore) -> None:
    future = asyncio.get_running_loop().create_future()
    store.when_flushed(store.log_end, future.set_result)
    await asyncio.wait_for(future, HANG_S)
    await asyncio.sleep(0)


@on_loop
async def test_only_flushed_bytes_are_confirmed(store: ReplicaStore) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        store.confirmation.advance(store.log_end + 8)
    store.abandon()


@on_loop
async def test_the_owner_hears_when_awaited_bytes_are_flushed(store: ReplicaStore) -> None:
    confirmation = store.confirmation
    confirmation.on_flushed = lambda: confirmation.advance(store.flushed_offset)
    store.create_topic("orders", 1)
    await asyncio.wait_for(store.confirmed(store.log_end), HANG_S)
    assert store.confirm_offset == store.log_end
    store.abandon()


@on_loop
async def test_a_set_of_one_confirms_what_it_has_flushed(store: ReplicaStore) -> None:
    store.confirmation.follow_flusher()
    store.create_topic("orders", 1)
    await asyncio.wait_for(store.confirmed(store.log_end), HANG_S)
    store.confirmation.hold()
    held = store.confirm_offset
    store.create_topic("payments", 1)
    await _flushed(store)
    assert store.confirm_offset == held < store.log_end
    store.abandon()


@on_loop
async def test_a_follower_joins_while_a_send_waits(store: ReplicaStore) -> None:
    """What was appended before the join is not acknowledged by the master's disk alone."""
    store.confirmation.follow_flusher()
    await _flushed(store)
    store.create_topic("orders", 1)
    heard: list[LiteMQError | None] = []
    _watch(store, store.log_end, heard)
    store.confirmation.hold()
    if store.confirm_offset < store.log_end:  # else it was flushed before
        await _flushed(store)
        assert heard == []
    store.confirmation.advance(store.flushed_offset)
    assert heard == [None]
    store.abandon()


@on_loop
async def test_refused_waiters_get_the_reason(store: ReplicaStore) -> None:
    store.create_topic("orders", 1)
    heard: list[LiteMQError | None] = []
    _watch(store, store.log_end, heard)
    store.stop_writing(LEFT)
    _watch(store, store.log_end, heard)
    assert [type(error) for error in heard] == [NotConfirmedError, NotConfirmedError]
    assert str(LEFT) in str(heard[0])
    with pytest.raises(NotConfirmedError):
        await store.confirmed(store.log_end)
    store.begin_writing(2)
    _watch(store, store.log_end, heard)
    await _flushed(store)
    store.confirmation.advance(store.flushed_offset)
    assert heard[2:] == [None]
    store.abandon()


@on_loop
async def test_too_few_replicas_end_only_the_waits_that_need_replicas(store: ReplicaStore) -> None:
    end = store.log_end
    store.create_topic("orders", 1)
    heard: list[LiteMQError | None] = []
    needing: list[LiteMQError | None] = []
    _watch(store, store.log_end, heard)
    for offset in (end, store.log_end):
        store.when_replicated(offset, needing.append)
    await _flushed(store)
    store.confirmation.advance(end)
    assert (heard, needing) == ([], [None])
    too_few = NotEnoughReplicasError("one is missing")
    store.confirmation.refuse_replicas(too_few)
    store.when_replicated(store.log_end, needing.append)
    store.when_replicated(end, needing.append)  # it is confirmed already
    assert [type(error) for error in needing] == [type(None), NotConfirmedError, NotConfirmedError, type(None)]
    assert (store.replica_refusal, heard) == (too_few, [])
    store.confirmation.accept_replicas()
    assert store.replica_refusal is None
    store.when_replicated(store.log_end, needing.append)
    store.confirmation.advance(store.flushed_offset)
    assert (heard, needing[4:]) == ([None], [None])
    store.abandon()


@on_loop
async def test_a_waiter_that_raises_does_not_stop_the_others_that_are_refused(store: ReplicaStore) -> None:
    store.create_topic("orders", 1)
    heard: list[LiteMQError | None] = []

    def fail(_error: LiteMQError | None) -> None:
        raise RuntimeError("of one waiter")

    for call in (fail, heard.append):
        store.when_replicated(store.log_end, call)
    with pytest.raises(RuntimeError, match="of one waiter"):
        store.confirmation.refuse_replicas(NotEnoughReplicasError("one is missing"))
    assert heard == []
    await asyncio.sleep(0)
    assert [type(error) for error in heard] == [NotConfirmedError]
    store.abandon()


@on_loop
async def test_waiters_for_the_memory_of_all_members_rely_on_what_they_received(store: ReplicaStore) -> None:
    end = store.log_end
    store.create_topic("orders", 1)
    heard: list[LiteMQError | None] = []
    for offset in (store.log_end, end):
        store.when_received(offset, heard.append)
    assert heard == []
    store.confirmation.receive(end)
    assert (heard, store.confirmation.acked_received) == ([None], end)
    store.confirmation.receive(store.log_end)
    store.confirmation.receive(end)  # it never goes back
    assert (heard, store.confirmation.acked_received) == ([None, None], store.log_end)
    assert store.confirm_offset < end
    store.when_received(store.log_end, heard.append)
    assert heard == [None, None, None]
    store.abandon()


@on_loop
async def test_a_new_epoch_does_not_rely_on_what_earlier_members_received(store: ReplicaStore) -> None:
    store.confirmation.receive(store.log_end + 1000)
    store.stop_writing(LEFT)
    begun = store.begin_writing(2)
    heard: list[LiteMQError | None] = []
    store.when_received(begun.end, heard.append)
    assert (heard, store.confirmation.acked_received) == ([], 0)
    store.stop_writing(LEFT)
    assert [type(error) for error in heard] == [NotConfirmedError]
    store.when_received(begun.end, heard.append)
    assert [type(error) for error in heard] == [NotConfirmedError] * 2
    store.abandon()


@on_loop
async def test_a_waiter_that_raises_does_not_stop_those_for_memory(store: ReplicaStore) -> None:
    store.create_topic("orders", 1)
    heard: list[LiteMQError | None] = []

    def fail(_error: LiteMQError | None) -> None:
        raise RuntimeError("of one waiter")

    for call in (fail, heard.append):
        store.when_received(store.log_end, call)
    with pytest.raises(RuntimeError, match="of one waiter"):
        store.confirmation.refuse_replicas(NotEnoughReplicasError("one is missing"))
    await asyncio.sleep(0)
    assert [type(error) for error in heard] == [NotConfirmedError]
    store.abandon()


@on_loop
async def test_waiters_hear_of_the_end_of_the_log(store: ReplicaStore) -> None:
    store.create_topic("orders", 1)
    heard: list[LiteMQError | None] = []
    _watch(store, store.log_end, heard)
    waiting = asyncio.get_running_loop().run_in_executor(None, _wait, store)
    await _flushed(store)
    store._log.fail("the disk is gone")
    assert isinstance(await asyncio.wait_for(waiting, HANG_S), StoreFailedError)
    await asyncio.sleep(0)
    assert [type(error) for error in heard] == [StoreFailedError]
    store.abandon()


def _wait(store: ReplicaStore) -> BaseException | None:
    try:
        store.wait_confirmed(store.log_end, HANG_S)
    except LiteMQError as error:
        return error
    return None


@on_loop
async def test_a_waiter_that_raises_does_not_hold_up_the_others(store: ReplicaStore) -> None:
    end = store.log_end
    heard: list[LiteMQError | None] = []

    def raise_it(_error: LiteMQError | None) -> None:
        raise ZeroDivisionError

    store.when_confirmed(end, raise_it)
    _watch(store, end, heard)
    with pytest.raises(ZeroDivisionError):
        store.confirmation.advance(end)
    await asyncio.sleep(0)
    assert heard == [None]
    store.abandon()


def test_threads_wait(store: ReplicaStore) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        store.wait_confirmed(store.log_end + 8, 0)
    with pytest.raises(TimeoutError, match="not confirmed within 0 s"):
        store.wait_confirmed(store.log_end, 0)
    thread = threading.Thread(target=store.wait_confirmed, args=(store.log_end, HANG_S))
    thread.start()
    store.confirmation.advance(store.log_end)
    thread.join(HANG_S)
    assert not thread.is_alive()
    store.abandon()
