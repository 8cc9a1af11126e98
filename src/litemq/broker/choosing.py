"""What a filter makes of messages that are about to be given out: runs of those that are wanted, and of the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from litemq.broker.chunks import Chunk
from litemq.broker.filters import Filter
from litemq.format.runs import Run
from litemq.format.view import RecordView

__all__ = ["choose", "count_unwanted", "runs_of"]


def choose(chunk: Chunk, runs: Sequence[Run], wanted: Filter) -> tuple[list[Run], list[Run]]:
    """The runs of messages that are wanted, and of those that are not."""
    chosen: list[Run] = []
    passed: list[Run] = []
    for begin, end in runs:
        accepted = [wanted.accepts(RecordView(chunk.view(offset, offset + 1))) for offset in range(begin, end)]
        chosen += runs_of(accepted, begin)
        passed += runs_of([not each for each in accepted], begin)
    return chosen, passed


def count_unwanted(entries: npt.NDArray[np.void], wanted: Filter) -> int:
    """How many messages, from the first on, are of no interest, as their queue entries tell."""
    candidates = wanted.candidates(entries)
    return int(candidates.argmax()) if candidates.any() else int(entries.size)


def runs_of(chosen: Sequence[bool], first: int) -> list[Run]:
    """The runs of offsets, from ``first`` on, that are chosen."""
    runs: list[Run] = []
    at = first
    for is_chosen, group in groupby(chosen):
        end = at + len(list(group))
        if is_chosen:
            runs.append((at, end))
        at = end
    return runs
