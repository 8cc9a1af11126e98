"""How far the batches of queries are decided. It is kept for ever: a batch is not taken twice, however late its driver asks again.

With the last decision stands its plan: what the driver was to say to other brokers. One that comes after it can finish that.
"""

from __future__ import annotations

from collections.abc import Iterator

from litemq.proto.control_pb2 import Control, Row, SinkRow
from litemq.storage.state.part import Touch

__all__ = ["Sinks"]


class Sinks:
    """The last decided batch of each query."""

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        self._plans: dict[str, bytes] = {}  # of the last batch; most have none

    def committed(self, query: str) -> int:
        """The last batch of a query that was decided; -1: none."""
        return self._committed.get(query, -1)

    def plan(self, query: str) -> bytes:
        """What came with the decision about that batch."""
        return self._plans.get(query, b"")

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        if not control.HasField("sink_committed"):
            return []
        query, batch = control.sink_committed.query, control.sink_committed.batch
        if batch > self.committed(query):
            self._set(query, batch, control.sink_committed.plan)
        return [("sink", query)]

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("sink", str(query)):
                return self._row(query)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        return map(self._row, sorted(self._committed))

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("sink"):
            return False
        self._set(row.sink.query, row.sink.committed_batch, row.sink.plan)
        return True

    def copy(self) -> Sinks:
        """As it is now."""
        other = Sinks()
        other._committed, other._plans = dict(self._committed), dict(self._plans)
        return other

    def _set(self, query: str, batch: int, plan: bytes) -> None:
        self._committed[query] = batch
        self._plans.pop(query, None)
        if plan:
            self._plans[query] = plan

    def _row(self, query: str) -> Row:
        return Row(sink=SinkRow(query=query, committed_batch=self._committed[query], plan=self.plan(query)))
