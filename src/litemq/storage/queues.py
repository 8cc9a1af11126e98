"""The consume queues of a store: entries come in memory and go to their files behind the writer's back.

A queue's entries up to ``stored`` are in its files; the others wait here. Which of them may be read is for the caller to say: an entry
counts once its record is confirmed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from litemq.format.stamp import QUEUE_ENTRY, QueueRuns
from litemq.storage.queue_files import QueueFiles
from litemq.storage.state import QueueKey, State

__all__ = ["Queues"]

Entries = npt.NDArray[np.void]
_NONE = np.empty(0, QUEUE_ENTRY)


class _Waiting:
    """The entries of one queue that are not in its files yet, from queue offset ``first`` on."""

    __slots__ = ("first", "parts")

    def __init__(self, first: int) -> None:
        self.first = first
        self.parts: list[Entries] = []

    def joined(self) -> Entries:
        if len(self.parts) > 1:
            self.parts = [np.concatenate(self.parts)]
        return self.parts[0] if self.parts else _NONE


class Queues:
    """All queues of a store. How far each reaches is the state's to know."""

    def __init__(self, files: QueueFiles, state: State) -> None:
        self._files = files
        self._state = state
        self._waiting: dict[QueueKey, _Waiting] = {}

    def add(self, key: QueueKey, first: int, entries: Entries) -> None:
        """Entries of records that were just written, at queue offsets ``first …``."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(first)
        waiting.parts.append(entries)

    def add_runs(self, runs: QueueRuns, firsts: npt.NDArray[np.int64], entries: Entries) -> None:
        """The entries of a whole batch, grouped by queue."""
        bounds = runs.bounds.tolist()
        for number, (topic_id, queue_id, first) in enumerate(
            zip(runs.topic_ids.tolist(), runs.queue_ids.tolist(), firsts.tolist(), strict=True)
        ):
            self.add(QueueKey(topic_id, queue_id), first, entries[bounds[number] : bounds[number + 1]])

    def read(self, key: QueueKey, first: int, count: int, below: int) -> Entries:
        """Up to ``count`` entries from ``first`` on, of records that end at or below log offset ``below``."""
        waiting = self._waiting.get(key)
        stored = waiting.first if waiting is not None else self._state.next.get(key, 0)
        parts = []
        if first < stored:
            topic = self._state.topics[key.topic_id].name
            parts.append(self._files.read(topic, key.queue_id, first, min(count, stored - first), stored))
        if waiting is not None and first + count > stored:
            begin = max(0, first - stored)
            new = waiting.joined()[begin : first + count - stored]
            # What is in the files was confirmed when it was written there; an entry there that says otherwise is damaged, not new.
            parts.append(new[: int(np.searchsorted(new["log_offset"] + new["size"], below, side="right"))])
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else _NONE

    def forget(self) -> None:
        """Nothing waits any more: everything is about to be added again from the log."""
        self._waiting.clear()

    def drop_before(self, key: QueueKey, least: int) -> None:
        """Remove the files of a queue that hold nothing from ``least`` on."""
        self._files.drop_before(self._state.topics[key.topic_id].name, key.queue_id, least)

    def write_behind(self, below: int) -> None:
        """Put the entries of records that end at or below log offset ``below`` into their files."""
        for key, waiting in list(self._waiting.items()):
            entries = waiting.joined()
            safe = int(np.searchsorted(entries["log_offset"] + entries["size"], below, side="right"))
            if safe == 0:
                continue
            topic = self._state.topics[key.topic_id].name
            self._files.write(topic, key.queue_id, waiting.first, entries[:safe])
            if safe == entries.size:
                del self._waiting[key]
            else:
                waiting.first += safe
                waiting.parts = [entries[safe:]]
