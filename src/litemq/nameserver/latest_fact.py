"""The latest fact of a group that is known to have existed, by its epoch and revision.

A cluster store that was restored from an old copy has an earlier fact. Its in-sync set may include
replicas that lack confirmed messages, and its next epoch may have begun before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.nameserver.cluster_store.groups import GroupFact

__all__ = ["EPOCH_GAP", "LatestFact"]

# Between the latest known epoch and that of recovered facts. Replicas may have been elected in
# later ones, and may still learn of it; a missing one may have records of them.
EPOCH_GAP: Final = 1 << 20


class LatestFact(NamedTuple):
    """The highest ``epoch`` and ``revision`` that the fact of a group has had; 0: none is known.

    Neither of them falls, with one exception: after a recovery, revisions may begin again. The
    epoch is far higher then.
    """

    epoch: int = 0
    revision: int = 0

    def joined(self, epoch: int, revision: int) -> LatestFact:
        """Return the latest fact, if there was also one of ``epoch`` and ``revision``."""
        if not self.epoch or epoch - self.epoch >= EPOCH_GAP // 2:
            return LatestFact(epoch, revision)
        if not epoch or self.epoch - epoch >= EPOCH_GAP // 2:
            return self
        return LatestFact(max(self.epoch, epoch), max(self.revision, revision))

    def outdates(self, fact: GroupFact) -> bool:
        """Return whether ``fact`` is from an old copy: a later one has existed.

        A group at epoch 0 has confirmed nothing, and may begin again.
        """
        return bool(self.epoch) and self.joined(fact.epoch, fact.revision) != (fact.epoch, fact.revision)
