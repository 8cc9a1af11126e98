"""Message ids: unique, and in the order in which they were made; in C and in Python."""

import pytest

from litemq.client import native
from litemq.client.identity import MESSAGE_ID_BYTES, PythonMessageIds, new_message_ids

KINDS = [PythonMessageIds, *([native.sending.MessageIds] if native.enabled else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_message_ids_are_unique_and_rise(kind: type[PythonMessageIds]) -> None:
    ids = kind("0123456789")
    made = [ids.next() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)
    assert {len(made_id) for made_id, _ in made} == {MESSAGE_ID_BYTES}


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_id_has_its_time_the_random_part_and_a_count(kind: type[PythonMessageIds]) -> None:
    ids = kind("0123456789")
    for number in range(5_000):
        message_id, now = ids.next()
        assert message_id == f"{now:012x}0123456789{number:09x}"


def test_two_producers_have_different_ids() -> None:
    assert new_message_ids().next()[0] != new_message_ids().next()[0]


@pytest.mark.skipif(not native.enabled, reason="the extension is not built")
@pytest.mark.parametrize("random", ["", "012345678", "01234567890"])
def test_the_random_part_has_ten_digits(random: str) -> None:
    with pytest.raises(ValueError, match="10 digits"):
        native.sending.MessageIds(random)
