"""Group facts: every field is checked, and a change keeps what only an election may change."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import ChangeRefusedError, InvalidArgumentError, MasterLeasedError
from litemq.nameserver.cluster_store.groups import (
    MAX_EPOCH,
    MAX_LEASE_MS,
    MAX_MEMBERS,
    NOTHING,
    Confirmed,
    GroupFact,
    GroupState,
    check_change,
    check_creation,
    check_election,
    check_lease_ms,
    decode_fact,
    encode_fact,
    refusal,
)
from litemq.proto.cluster_pb2 import StoredGroup

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
FACT = GroupFact("orders", 3, A, frozenset({A, B, C}), 2, 1 << 30, revision=7)
STORE_IDS = st.binary(min_size=16, max_size=16)


@st.composite
def facts(draw: st.DrawFn) -> GroupFact:
    members = draw(st.frozensets(STORE_IDS, min_size=1, max_size=5))
    epoch = draw(st.integers(0, MAX_EPOCH))
    holder = draw(st.sampled_from([b"", *sorted(members)])) if epoch else b""
    return GroupFact("g", epoch, holder, members, draw(st.integers(1, 64)), draw(st.integers(1, 1 << 40)), 5)


@given(facts())
def test_bytes_of_a_fact_can_be_read_again(fact: GroupFact) -> None:
    assert decode_fact("g", encode_fact(fact), 5) == fact


def test_the_bytes_do_not_depend_on_the_order_of_the_set() -> None:
    assert encode_fact(replace(FACT, members=frozenset([C, B, A]))) == encode_fact(FACT)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "a/b"),
        ("epoch", -1),
        ("epoch", MAX_EPOCH + 1),
        ("epoch", 0),  # but it has a master
        ("epoch", True),
        ("holder", b"\4" * 16),
        ("members", frozenset()),
        ("members", frozenset({A, b"short"})),
        ("members", frozenset({A, "text"})),
        ("members", frozenset({A} | {number.to_bytes(16, "big") for number in range(MAX_MEMBERS)})),
        ("min_in_sync", 0),
        ("min_in_sync", MAX_MEMBERS + 1),
        ("segment_bytes", 0),
        ("segment_bytes", 1 << 41),
        ("revision", -1),
    ],
)
def test_every_field_is_checked(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        replace(FACT, **{field: value})


def _stored(**changed: Any) -> bytes:
    stored = StoredGroup.FromString(encode_fact(FACT))
    if "members" in changed:
        del stored.members[:]
    stored.MergeFrom(StoredGroup(**changed))
    return stored.SerializeToString()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        _stored(name="other"),
        _stored(holder=b"\4" * 16),
        _stored(members=[A, A, B]),
        _stored(segment_bytes=1 << 60),
    ],
)
def test_stored_bytes_are_checked(data: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="group orders"):
        decode_fact("orders", data, 1)


def test_a_new_group_has_no_master() -> None:
    check_creation(replace(FACT, holder=b""))
    with pytest.raises(InvalidArgumentError, match="an election chooses it"):
        check_creation(FACT)


def test_within_an_epoch_the_set_changes_but_not_below_its_minimum() -> None:
    pair = replace(FACT, members=frozenset({A, B}))
    check_change(FACT, pair)
    check_change(pair, FACT)
    check_change(pair, replace(pair, members=frozenset({A, C})))
    alone = replace(FACT, members=frozenset({A}))
    check_change(alone, replace(alone, min_in_sync=3))  # the set was as small before
    check_change(FACT, replace(alone, min_in_sync=1))
    for after in (alone, replace(pair, min_in_sync=3)):
        with pytest.raises(InvalidArgumentError, match="smaller than min_in_sync"):
            check_change(FACT, after)
    for changed in ({"epoch": 4}, {"holder": B}, {"name": "other"}, {"segment_bytes": 8}):
        with pytest.raises(InvalidArgumentError):
            check_change(FACT, replace(FACT, **changed))


def test_an_election_raises_the_epoch_and_names_a_master() -> None:
    check_election(FACT, replace(FACT, epoch=4, holder=B, members=frozenset({A, B})))
    check_election(FACT, replace(FACT, epoch=9))  # the same master again
    wrong: list[dict[str, Any]] = [{"holder": B}, {"epoch": 2}, {"epoch": 4, "holder": b""}]
    wrong += [{"epoch": 4, "members": frozenset({A})}, {"epoch": 4, "segment_bytes": 8}]
    for changed in wrong:
        with pytest.raises(InvalidArgumentError):
            check_election(FACT, replace(FACT, **changed))


def test_a_change_begins_with_a_fact_of_the_store() -> None:
    unsaved = replace(FACT, revision=0)
    with pytest.raises(InvalidArgumentError, match="without a revision"):
        check_change(unsaved, unsaved)
    with pytest.raises(InvalidArgumentError, match="without a revision"):
        check_election(unsaved, replace(unsaved, epoch=4))


def test_bounds_of_a_lease() -> None:
    check_lease_ms(1)
    check_lease_ms(MAX_LEASE_MS)
    for wrong in (0, MAX_LEASE_MS + 1, 1.5, True):
        with pytest.raises(InvalidArgumentError, match="lease_ms"):
            check_lease_ms(wrong)  # type: ignore[arg-type]


def test_a_refusal_carries_the_state_that_applies() -> None:
    state = GroupState(FACT, is_leased=True)
    assert "not in the cluster store" in str(refusal("orders", FACT, None))
    assert "exists, at epoch 3" in str(refusal("orders", None, state))
    stale = refusal("orders", replace(FACT, revision=6), state)
    assert "read the group again" in str(stale)
    assert not isinstance(stale, MasterLeasedError)
    assert not stale.retriable
    leased = refusal("orders", FACT, state)
    assert isinstance(leased, MasterLeasedError)
    assert leased.retriable
    assert all(error.current == state for error in (stale, leased))
    again = pickle.loads(pickle.dumps(leased))  # noqa: S301 (our own bytes)
    assert isinstance(again, ChangeRefusedError)
    assert (str(again), again.current) == (str(leased), state)


def test_what_is_confirmed_stays_confirmed_until_an_unclean_election() -> None:
    known = replace(FACT, confirmed=Confirmed(500, 2))
    assert decode_fact("orders", encode_fact(known), 7) == known
    assert encode_fact(replace(known, confirmed=NOTHING)) == encode_fact(FACT)  # the bytes of older versions
    check_change(known, replace(known, confirmed=Confirmed(501, 3)))
    for confirmed in (Confirmed(499, 3), Confirmed(501, 1), NOTHING):
        with pytest.raises(InvalidArgumentError, match="what is confirmed stays confirmed"):
            check_change(known, replace(known, confirmed=confirmed))
    check_election(known, replace(known, epoch=4, unclean_epoch=4, confirmed=NOTHING))
    for outside in (Confirmed(-1, 0), Confirmed(1 << 63, 0), Confirmed(1, FACT.epoch + 1)):
        with pytest.raises(InvalidArgumentError):
            replace(FACT, confirmed=outside)


def test_a_log_needs_the_offset_and_the_epoch_of_what_is_confirmed() -> None:
    confirmed = NOTHING.raised(500, 2).raised(400, 3)
    assert confirmed == Confirmed(500, 3)
    assert confirmed.is_in(3, 500)
    assert not confirmed.is_in(3, 499)
    assert not confirmed.is_in(2, 900)  # these are unconfirmed records of an older master
