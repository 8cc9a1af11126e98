"""Gives up undecided transactions: their halves become dead letters, with the history of checks.

One record per message ends the half and stores it. The first of them ends the transaction. After a
crash in between, the next broker of the store continues with the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import Final

from litemq.broker.dead_letters.fingerprint import error_fingerprint
from litemq.broker.dead_letters.writing import read_log_offset
from litemq.broker.transactions.half_reader import read_halves
from litemq.clock import Clock
from litemq.errors import CorruptStoreError, OffsetOutOfRangeError
from litemq.format.dead_letters import DeadLetterHistory, encode_dead_letter
from litemq.format.transactions import transaction_group
from litemq.storage.batches.half_batches import rollback_controls
from litemq.storage.state import dead_letter_topic
from litemq.storage.state.transactions.transaction import DELETED, Transaction
from litemq.storage.store import Placed, Store
from litemq.types import DeadReason, RecordKind

__all__ = ["UndecidedHalves"]

_BYTES_AT_ONCE: Final = 1 << 20


class UndecidedHalves:
    """Writes the dead letters, on the event loop."""

    def __init__(self, store: Store, clock: Clock, lookups: Executor) -> None:
        self._store = store
        self._clock = clock
        self._lookups = lookups

    async def give_up(self, transactions: Sequence[str]) -> None:
        """Turn the remaining halves of ``transactions`` into dead letters."""
        await self._store.confirmed(self._store.log_end)
        loop, halves = asyncio.get_running_loop(), self._store.state.parts.halves
        for name in transactions:
            while (known := halves.get(name)) is not None and not known.decision_number:
                try:
                    records = await loop.run_in_executor(self._lookups, read_halves, self._store, name, _BYTES_AT_ONCE)
                except (CorruptStoreError, OffsetOutOfRangeError) as error:
                    if isinstance(error, CorruptStoreError) and self._store.is_replicated:
                        raise  # another replica has the record: the caller tries again
                    for control in rollback_controls(
                        [name], f"it was undecided, and one of its records cannot be read: {error}"
                    ):
                        self._store.append_control(control)
                    break
                if not self._append(name, known, records):
                    break

    def _append(self, name: str, known: Transaction, records: list[bytes]) -> bool:
        with self._store.atomically():
            if self._store.state.parts.halves.get(name) is not known or known.decision_number:
                return False  # it was decided meanwhile
            history = self._history(name, known)
            placed = []
            for raw, run in zip(records, known.left, strict=False):
                if run.topic_id == DELETED:
                    continue
                topic = self._store.system_topic(dead_letter_topic(self._store.state.topics[run.topic_id].name))
                placed.append(
                    Placed(encode_dead_letter(raw, history), topic.topic_id, 0, RecordKind.DEAD, read_log_offset(raw))
                )
            if placed:
                self._store.append_placed(placed)
            return bool(placed)

    def _history(self, name: str, known: Transaction) -> DeadLetterHistory:
        asked = [each.asked for each in known.history if each.asked]
        error = f"transaction {name!r} is undecided after {known.checks} checks"
        if not asked:
            error += ": no producer of its group was connected"
        lines = [f"stored {_time(known.first_at)}"]
        for each in known.history:
            answer = "which answered unknown" if each.unknown else "which did not answer"
            lines.append(
                f"checked {_time(each.at)}: "
                + (f"asked {each.asked}, {answer}" if each.asked else "no producer was connected")
            )
        detail = "undecided"
        return DeadLetterHistory(
            DeadReason.UNDECIDED,
            detail,
            transaction_group(name),
            consumer=asked[-1] if asked else "",
            error=error,
            stack="\n".join(lines),
            tries=known.checks,
            dead_at=self._clock.wall_ms(),
            fingerprint=error_fingerprint(DeadReason.UNDECIDED, detail, "", ""),
            transaction=name,
        )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
