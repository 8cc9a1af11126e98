"""Delayed messages of several brokers, seen as one."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import pytest

from litemq import CancelOutcome, ScheduledState
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Engine
from litemq.client.engine.survey import Survey
from litemq.client.engine.timers import TimerCursor, TimerInfo, TimerPage, TimerSelection
from litemq.client.messages.serializers import Serializers
from litemq.client.timers.timers import Timers
from litemq.errors import InvalidArgumentError, NoRouteError, TimerEndedError, TimerNotFoundError

NOW = 1_700_000_000_000
_OUTCOMES = {
    ScheduledState.SCHEDULED: CancelOutcome.CANCELLED,
    ScheduledState.DELIVERED: CancelOutcome.DELIVERED,
    ScheduledState.CANCELLED: CancelOutcome.CANCELLED_BEFORE,
}


def _fact(message_id: str, due: int, state: ScheduledState = ScheduledState.SCHEDULED) -> TimerInfo:
    return TimerInfo(message_id, state, NOW + due, NOW + due, (), "", 200, 0, NOW)


class TwoBrokers:
    """A ``TimerEngine`` and the needed part of an engine: brokers answer two messages at a time."""

    def __init__(self, first: list[TimerInfo], second: list[TimerInfo], *, silent: Sequence[str] = ()) -> None:
        self.facts = {"one": first, "two": second}
        self.silent = silent
        self.asked: list[tuple[str, int]] = []
        self.timers = self

    def wall_ms(self) -> int:
        return NOW

    async def survey(self, _topic: str = "") -> Survey:
        return Survey([*self.facts, *self.silent], dict.fromkeys(self.silent, "down"))

    def _of(self, broker: str, message_id: str) -> TimerInfo | None:
        return next((fact for fact in self.facts[broker] if fact.message_id == message_id), None)

    async def cancel(self, broker: str, _topic: str, message_ids: Sequence[str]) -> list[CancelOutcome]:
        self.asked.append((broker, len(message_ids)))
        found = [self._of(broker, message_id) for message_id in message_ids]
        return [CancelOutcome.UNKNOWN if fact is None else _OUTCOMES[fact.state] for fact in found]

    async def cancel_batch(self, broker: str, _topic: str, _batch_id: str) -> None:
        self.asked.append((broker, 0))

    async def reschedule(self, broker: str, _topic: str, message_id: str, due: int) -> TimerInfo:
        fact = self._of(broker, message_id)
        if fact is None:
            raise TimerNotFoundError("not here")
        if fact.state is not ScheduledState.SCHEDULED:
            raise TimerEndedError("too late")
        return fact._replace(due=due)

    async def describe(self, broker: str, _topic: str, message_id: str) -> tuple[TimerInfo, bytes] | None:
        fact = self._of(broker, message_id)
        return None if fact is None else (fact, b"")

    async def page(
        self,
        broker: str,
        _topic: str,
        _selection: TimerSelection,
        *,
        after: TimerCursor,
        limit: int,
        count_only: bool = False,
    ) -> TimerPage:
        assert limit or count_only
        facts = [fact for fact in self.facts[broker] if fact.due > after.due]
        is_end = len(facts) <= 2
        facts = facts[:2]
        cursor = TimerCursor(facts[-1].due if facts else after.due, 0)
        return TimerPage(() if count_only else tuple(facts), len(facts), cursor, is_end)


def _timers(engine: TwoBrokers) -> Timers:
    return Timers(cast("Engine", engine), ClientConfig(), Serializers(None))


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_they_are_listed_as_one_in_the_order_of_due_times() -> None:
    async def main() -> None:
        first = [_fact(f"a{due}", due) for due in (1, 4, 5, 6, 30)]
        second = [_fact(f"b{due}", due) for due in (2, 3, 20)]
        timers = _timers(TwoBrokers(first, second))
        found = [(message.broker, message.message_id) async for message in timers.list("orders")]
        assert [name for _, name in found] == ["a1", "b2", "b3", "a4", "a5", "a6", "b20", "a30"]
        assert {(broker, name[0]) for broker, name in found} == {("one", "a"), ("two", "b")}
        assert await timers.count("orders") == 8
        assert [message async for message in _timers(TwoBrokers([], [])).list("orders")] == []
        with pytest.raises(InvalidArgumentError, match="came from a list"):
            _ = [message.message async for message in timers.list("orders")]

    _run(main())


def test_what_one_broker_knows_is_known() -> None:
    async def main() -> None:
        first = [_fact("a", 1), _fact("gone", 2, ScheduledState.CANCELLED)]
        second = [_fact("b", 1), _fact("gone", 2, ScheduledState.DELIVERED)]
        engine = TwoBrokers(first, second)
        timers = _timers(engine)
        assert await timers.cancel("orders", "b") is CancelOutcome.CANCELLED
        assert await timers.cancel("orders", "gone") is CancelOutcome.DELIVERED
        assert await timers.cancel("orders", "none") is CancelOutcome.UNKNOWN
        assert await timers.cancel_many("orders", []) == {}
        engine.asked.clear()
        await timers.cancel_many("orders", [f"m-{number}" for number in range(2500)] * 2)
        assert sorted(engine.asked) == [(broker, count) for broker in ("one", "two") for count in (500, 1000, 1000)]
        with pytest.raises(InvalidArgumentError, match="cancel\\(\\)"):
            await timers.cancel_many("orders", "a")
        assert (await timers.reschedule("orders", "b", delay=60)).broker == "two"
        with pytest.raises(TimerEndedError):
            await timers.reschedule("orders", "gone", delay=60)
        with pytest.raises(TimerNotFoundError, match="no delayed message"):
            await timers.reschedule("orders", "none", delay=60)
        assert await timers.get("orders", "none") is None

    _run(main())


def test_a_broker_that_is_gone_for_a_while_may_know_more() -> None:
    async def main() -> None:
        engine = TwoBrokers([_fact("a", 1)], [], silent=["three"])
        timers = _timers(engine)
        assert await timers.cancel("orders", "a") is CancelOutcome.CANCELLED
        for asking in (
            timers.cancel("orders", "none"),
            timers.cancel_many("orders", ["a", "none"]),
            timers.cancel_batch("orders", "b"),
            timers.reschedule("orders", "none", delay=1),
            timers.get("orders", "none"),
        ):
            with pytest.raises(NoRouteError, match="three does not answer"):
                await asking
        assert (("one", 0) in engine.asked, ("two", 0) in engine.asked) == (
            True,
            True,
        )  # the batch is cancelled where it can be

    _run(main())
