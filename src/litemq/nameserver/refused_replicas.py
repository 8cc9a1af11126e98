"""The brokers of a group whose reports were refused, so that operators see them."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.proto.wire_pb2 import ReplicaReport

__all__ = ["RefusedReplicas"]

_SHOWN_NS: Final = 60_000_000_000  # a broker tries again every second
_MAX_REFUSED: Final = 64


class _Broker(NamedTuple):
    broker_id: str
    host: str
    port: int


class RefusedReplicas:
    """The last refusal of each broker, for a minute after its last report."""

    def __init__(self) -> None:
        self._refused: dict[_Broker, tuple[str, int]] = {}  # why, and when

    def add(self, report: ReplicaReport, reason: str, now: int) -> bool:
        """Note a refusal; return whether it is new."""
        broker = _broker_of(report)
        before = self._refused.pop(broker, None)
        if len(self._refused) >= _MAX_REFUSED:
            del self._refused[next(iter(self._refused))]  # the one that was refused least recently
        self._refused[broker] = reason, now
        return before is None or before[0] != reason or now - before[1] > _SHOWN_NS

    def remove(self, report: ReplicaReport) -> None:
        """Forget a broker whose report was accepted."""
        self._refused.pop(_broker_of(report), None)

    def problems(self, now: int) -> list[str]:
        """Return a sentence for each broker that was refused lately."""
        return [
            f"{broker.broker_id} at {broker.host}:{broker.port} is refused: {reason}"
            for broker, (reason, refused_at) in sorted(self._refused.items())
            if now - refused_at <= _SHOWN_NS
        ]


def _broker_of(report: ReplicaReport) -> _Broker:
    return _Broker(report.broker_id, report.host, report.port)
