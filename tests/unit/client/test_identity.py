"""Message ids: unique, and in the order in which they were made."""

from litemq.client.identity import MessageIds


def test_message_ids_are_unique_and_rise() -> None:
    ids = MessageIds()
    made = [ids.next()[0] for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)
    assert max(map(len, made)) <= 64
    assert MessageIds().next()[0] != MessageIds().next()[0]
