"""The last decided batch of each query, a part of the state.

It is kept forever, so that a batch is never committed twice, however late its driver repeats the
request. With the last decision, the *plan* is kept: the decisions that the driver has to send to
other brokers. After a crash, another driver can complete them.
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
        self._plans: dict[str, bytes] = {}  # of the last batch; most queries have none

    def committed(self, query: str) -> int:
        """Return the last decided batch of ``query``, or -1."""
        return self._committed.get(query, -1)

    def plan(self, query: str) -> bytes:
        """Return the plan of the last decided batch of ``query``."""
        return self._plans.get(query, b"")

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        if not control.HasField("sink_committed"):
            return []
        query, batch = control.sink_committed.query, control.sink_committed.batch
        if batch > self.committed(query):
            self._set(query, batch, control.sink_committed.plan)
        return [("sink", query)]

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("sink", str(query)):
                return self._row(query)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        return map(self._row, sorted(self._committed))

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("sink"):
            return False
        self._set(row.sink.query, row.sink.committed_batch, row.sink.plan)
        return True

    def copy(self) -> Sinks:
        """Return an independent copy."""
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
