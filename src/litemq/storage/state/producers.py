"""What each producer has sent: the sequence that its next record must have, and where the earlier ones went."""

from __future__ import annotations

from litemq.format.columns import RecordColumns

__all__ = ["Pair", "Producers"]

Pair = tuple[int, int, int]  # producer id, topic id, queue id


class Producers:
    """Sequences begin at 0 and rise by one a record."""

    def __init__(self) -> None:
        self._sent: dict[Pair, list[tuple[int, int]]] = {}

    def expected(self, pair: Pair) -> int:
        """The sequence that comes next."""
        return len(self._sent.get(pair, ()))

    def receipt(self, pair: Pair, sequence: int) -> tuple[int, int] | None:
        """Queue offset and store timestamp of an earlier record, while they are known."""
        return self._sent[pair][sequence]

    def took(self, columns: RecordColumns, topic_id: int, queue_ids: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        """Records were appended."""
        producer_ids = columns.header["producer_id"].tolist()
        for producer_id, queue_id, queue_offset in zip(producer_ids, queue_ids, queue_offsets, strict=True):
            if producer_id:
                self._sent.setdefault((producer_id, topic_id, queue_id), []).append((queue_offset, store_timestamp))
