"""The checker of poison messages finds what it is for."""

from __future__ import annotations

from collections import Counter

from support.cluster_chaos.poison_load import PoisonLoad


def _good() -> PoisonLoad:
    load = PoisonLoad(sent={"p0", "p1", "p2"}, acked={"p0", "p1"}, refused={"p2"})
    load.attempts.update(p0=[1, 2, 3, 4], p1=[1, 2, 2, 3, 4])  # one of them was counted again
    load.dead = Counter(["p0", "p1"])
    return load


def test_each_message_dies_once() -> None:
    load = _good()
    assert list(load.problems()) == []
    del load.dead["p1"]
    assert list(load.problems()) == ["I10: p1 failed in the attempts [1, 2, 2, 3, 4], and is no dead letter"]
    load.dead["p1"] = 2
    assert list(load.problems()) == ["I10: p1 is in the dead letters 2 times"]


def test_only_stored_messages_die() -> None:
    load = _good()
    load.dead.update(["p2", "p3"])
    assert [each[:7] for each in load.problems()] == ["I10: p2", "I10: p3"]


def test_no_message_is_tried_too_often() -> None:
    load = _good()
    load.attempts["p0"].append(5)
    assert list(load.problems()) == ["I10: p0 was delivered for the attempts [1, 2, 3, 4, 5]"]
