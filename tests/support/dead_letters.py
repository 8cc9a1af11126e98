"""Dead letters, written without a failing consumer."""

from collections.abc import Iterable
from dataclasses import dataclass

from litemq.broker.dead_letters.fingerprint import error_fingerprint
from litemq.format.dead_letters import DeadLetterHistory, dead_topic, encode_dead_letter
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed, Store
from litemq.types import DeadReason, RecordKind

__all__ = ["Death", "write_dead_letters"]


@dataclass(frozen=True)
class Death:
    """The cause of a dead letter."""

    group: str = "billing"
    error: str = "ValueError: bad amount"
    stack: str = ""
    reason: DeadReason = DeadReason.MAX_RETRY
    detail: str = ""
    dead_at: int = 1_000


def write_dead_letters(
    store: Store, topic: str, queue_id: int, offsets: Iterable[int], death: Death | None = None
) -> list[int]:
    """Write dead letters for messages of a queue; return their log offsets."""
    death = death or Death()
    facts = store.state.topic(topic)
    assert facts is not None
    dead = store.system_topic(dead_topic(topic))
    placed = []
    for offset in offsets:
        original = bytes(store.read_queue(QueueKey(facts.topic_id, queue_id), offset, 1))
        history = DeadLetterHistory(
            death.reason,
            death.detail,
            death.group,
            f"{facts.topic_id}/{queue_id}/{offset}",
            "worker-1",
            death.error,
            death.stack,
            17,
            death.dead_at,
            error_fingerprint(death.reason, death.detail, death.error, death.stack),
        )
        log_offset = int.from_bytes(original[16:24], "big")
        placed.append(Placed(encode_dead_letter(original, history), dead.topic_id, 0, RecordKind.DEAD, log_offset))
    appended = store.append_placed(placed)
    store.wait_confirmed(appended.end)
    return [int(offset) for offset in appended.log_offsets]
