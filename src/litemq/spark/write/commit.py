"""The driver's side of a write in two phases: the decision.

A batch that went to several brokers must be decided alike at all of them, although the driver may die between the first and the last, and its
successor runs the batch again: rows may come in another order then, and go to other brokers. So one broker decides. It gets the decision first, and
keeps all of it, the shares of the others included; whoever comes later and finds the batch decided there follows what it kept, and what
was written since is swept.
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
    """What is kept of a decision about a batch, if there was one; ``None``: there was none."""
    plans: list[SinkPlan] | None = None
    for broker in brokers:
        answer = SinkAnswer.FromString(ask(broker, Opcode.DESCRIBE_SINK, DescribeSinkRequest(query=query).SerializeToString()))
        if answer.committed_batch >= batch:
            plans = plans or []
            if answer.committed_batch == batch:
                plans.append(SinkPlan.FromString(answer.plan))
    return plans


def commit(ask: Ask, brokers: Sequence[str], query: str, batch: int, shares: Mapping[str, Sequence[Winner]], *, decided: bool) -> None:
    """Decide a batch. ``brokers`` are those that it may go to, ``shares`` the winners at each; ``decided``: a task found that it is already."""
    plans = decided_plans(ask, brokers, query, batch) if decided else None
    if plans is None:
        first = min(brokers)
        plan = SinkPlan(shares=[SinkShare(broker=name, winners=shares[name]) for name in sorted(shares) if name != first])
        answer = _send_decision(ask, first, query, batch, shares.get(first, ()), plan)
        # Someone else may have been faster.
        plans = [SinkPlan.FromString(answer.plan)] if answer.committed_batch == batch else []
    for plan in plans:
        for share in plan.shares:
            _send_decision(ask, share.broker, query, batch, share.winners, SinkPlan())


def _send_decision(ask: Ask, broker: str, query: str, batch: int, winners: Iterable[Winner], plan: SinkPlan) -> SinkAnswer:
    request = CommitSinkRequest(query=query, batch=batch, winners=winners, plan=plan.SerializeToString())
    return SinkAnswer.FromString(ask(broker, Opcode.COMMIT_SINK, request.SerializeToString()))


def abort(ask: Ask, brokers: Iterable[str], query: str, batch: int) -> None:
    """Nothing of a batch counts."""
    for broker in brokers:
        ask(broker, Opcode.ABORT_SINK, AbortSinkRequest(query=query, batch=batch).SerializeToString())
