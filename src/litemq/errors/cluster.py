"""Errors of the cluster store, which keeps the epoch, master and in-sync set of each group."""

from __future__ import annotations

from typing import Any

from litemq.errors.base import LiteMQError

__all__ = [
    "ChangeOutcomeUnknownError",
    "ChangeRefusedError",
    "ClusterStoreError",
    "ClusterStoreUnavailableError",
    "GroupFactsLostError",
    "MasterLeaseLostError",
    "MasterLeasedError",
]


class ClusterStoreError(LiteMQError):
    """The cluster store cannot serve the request. The message gives the reason."""

    code = 90


class ClusterStoreUnavailableError(ClusterStoreError):
    """The cluster store did not answer; nothing was changed. Check that its servers run."""

    code = 91
    retriable = True


class ChangeOutcomeUnknownError(ClusterStoreError):
    """The cluster store may have made the change. Repeat it: the answer to that is definite."""

    code = 92
    retriable = True


class ChangeRefusedError(ClusterStoreError):
    """The group has changed since it was read; ``current`` is its state now, if it exists."""

    code = 93
    _parameters = ("message", "current")

    def __init__(self, message: str, current: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.current = current


class MasterLeasedError(ChangeRefusedError):
    """The group's master has a lease. An election is possible once the lease has ended."""

    code = 94
    retriable = True


class MasterLeaseLostError(ClusterStoreError):
    """The lease has ended, or is another replica's. The replica must not go on as the master."""

    code = 95


class GroupFactsLostError(ClusterStoreError):
    """The facts of a group are lost, or an old copy. Run ``litemq cluster recover GROUP``."""

    code = 96
