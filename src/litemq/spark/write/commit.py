"""Commit of a batch: the driver's side of the two-phase write.

All brokers must decide a batch the same way, even if the driver dies between the first and the last
commit. Its successor repeats the batch, possibly with another row order and other brokers. So one
broker decides: it receives the decision first and stores all of it, including the shares of the
other brokers. A driver that finds the batch decided there follows the stored plan; halves written
since are rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from litemq.proto.wire_pb2 import (
    AbortSinkRequest,
    CommitSinkRequest,
    DescribeSinkRequest,
    Opcode,
    SinkAnswer,
    SinkPlan,
    SinkShare,
    Winner,
)

__all__ = ["abort", "commit", "decided_plans"]

Ask = Callable[[str, int, bytes], bytes]  # broker, opcode, header -> header of the answer


def decided_plans(ask: Ask, brokers: Iterable[str], query: str, batch: int) -> list[SinkPlan] | None:
    """Return the stored plans of a decided batch; ``None`` if it is undecided."""
    plans: list[SinkPlan] | None = None
    for broker in brokers:
        answer = SinkAnswer.FromString(
            ask(broker, Opcode.DESCRIBE_SINK, DescribeSinkRequest(query=query).SerializeToString())
        )
        if answer.committed_batch >= batch:
            plans = plans or []
            if answer.committed_batch == batch:
                plans.append(SinkPlan.FromString(answer.plan))
    return plans


def commit(
    ask: Ask, brokers: Sequence[str], query: str, batch: int, shares: Mapping[str, Sequence[Winner]], *, decided: bool
) -> None:
    """Decide a batch.

    ``brokers`` are its possible destinations, ``shares`` the winning attempts at each. ``decided``
    means that a task found the batch already decided.
    """
    plans = decided_plans(ask, brokers, query, batch) if decided else None
    if plans is None:
        first = min(brokers)
        plan = SinkPlan(
            shares=[SinkShare(broker=name, winners=shares[name]) for name in sorted(shares) if name != first]
        )
        answer = _send_decision(ask, first, query, batch, shares.get(first, ()), plan)
        # Another driver may have decided first.
        plans = [SinkPlan.FromString(answer.plan)] if answer.committed_batch == batch else []
    for plan in plans:
        for share in plan.shares:
            _send_decision(ask, share.broker, query, batch, share.winners, SinkPlan())


def _send_decision(
    ask: Ask, broker: str, query: str, batch: int, winners: Iterable[Winner], plan: SinkPlan
) -> SinkAnswer:
    request = CommitSinkRequest(query=query, batch=batch, winners=winners, plan=plan.SerializeToString())
    return SinkAnswer.FromString(ask(broker, Opcode.COMMIT_SINK, request.SerializeToString()))


def abort(ask: Ask, brokers: Iterable[str], query: str, batch: int) -> None:
    """Roll back all halves of a batch."""
    for broker in brokers:
        ask(broker, Opcode.ABORT_SINK, AbortSinkRequest(query=query, batch=batch).SerializeToString())
