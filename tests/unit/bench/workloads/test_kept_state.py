"""The state that a failover must keep, made and counted on clusters in memory."""

import pytest

from litemq import AsyncClient
from litemq.bench.workloads import kept_state
from litemq.bench.workloads.kept_state import KINDS, KeptState
from litemq.testing import MemoryBroker
from support.on_loop import on_loop


@on_loop
async def test_a_cluster_that_keeps_everything_has_lost_nothing() -> None:
    with MemoryBroker() as broker:
        async with AsyncClient(broker.url) as mq:
            state = KeptState(mq, "round", 0.0)
            await state.make()
            assert not +await state.count_lost()


@on_loop
async def test_lost_progress_timers_and_ticks_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with the same topics, to which the state was never written."""
    monkeypatch.setattr(kept_state, "_LATE_S", 0.1)
    with MemoryBroker() as before, MemoryBroker() as after:
        async with AsyncClient(before.url) as mq, AsyncClient(after.url) as other:
            state = KeptState(mq, "round", 0.0)
            await state.make()
            empty = KeptState(other, "round", 0.0)
            for kind in KINDS:
                await other.admin.create_topic(f"round-{kind}", queues=1)
            empty._first_tick = state._first_tick - 10_000
            assert await empty._lost_progress() == 20
            assert await empty._lost_timers() == 20
            assert await empty._lost_ticks() >= 9
