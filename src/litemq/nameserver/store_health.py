"""The health of the store of group facts: without its answers, no master is elected or stays."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from litemq.errors import ChangeOutcomeUnknownError, ClusterStoreUnavailableError, LiteMQError
from litemq.nameserver.cluster_store.groups import GroupStore

__all__ = ["StoreHealth"]

_LOG = logging.getLogger(__name__)


class StoreHealth:
    """``problem`` says why the store does not answer; it is empty while it does."""

    def __init__(self, store: GroupStore, on_change: Callable[[], object]) -> None:
        """``on_change`` is called when the store stops to answer, and when it answers again."""
        self._store = store
        self._on_change = on_change
        self.problem = ""

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Note whether the store answers the request in this block."""
        problem = ""
        try:
            yield
        except (ClusterStoreUnavailableError, ChangeOutcomeUnknownError) as error:
            problem = f"the cluster store does not answer, so no master can be elected or stay: {error}"
            raise
        except asyncio.CancelledError:
            problem = self.problem
            raise
        finally:
            if problem and not self.problem:
                _LOG.error("%s", problem)
            elif self.problem and not problem:
                _LOG.warning("the cluster store answers again")
            is_change = bool(problem) != bool(self.problem)
            self.problem = problem
            if is_change:
                self._on_change()

    async def check(self, name: str | None) -> None:
        """Read the group ``name``, or all of them, to learn whether the store answers."""
        with contextlib.suppress(LiteMQError), self.asking():
            await (self._store.groups() if name is None else self._store.read(name))
