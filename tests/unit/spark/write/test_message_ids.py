"""Bulk message ids have the format of single ones."""

import re

from litemq.client.identity import new_message_ids
from litemq.spark.write.message_ids import MessageIdColumn


def test_ids_are_unique_rise_and_look_as_a_clients() -> None:
    ids = MessageIdColumn()
    many, first_ms = ids.next(5000)
    more, second_ms = ids.next(3)
    texts = many.to_pylist() + more.to_pylist()
    assert len(set(texts)) == 5003
    assert texts == sorted(texts)
    assert first_ms <= second_ms
    one, ms = new_message_ids().next()
    assert {len(text) for text in texts} == {len(one)}
    assert all(re.fullmatch("[0-9a-f]+", text) for text in texts)
    assert int(texts[0][:12], 16) == first_ms
    assert int(one[:12], 16) == ms


def test_two_tasks_have_no_id_in_common() -> None:
    assert MessageIdColumn().next(1)[0][0] != MessageIdColumn().next(1)[0][0]


def test_the_count_goes_on() -> None:
    ids = MessageIdColumn()
    ids.next(4095)
    assert [text[-9:] for text in ids.next(3)[0].to_pylist()] == ["000000fff", "000001000", "000001001"]
    assert ids.next(0)[0].to_pylist() == []
