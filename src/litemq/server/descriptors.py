"""File descriptors of a server: as many as allowed, and some that connections never get."""

from __future__ import annotations

import logging
import resource
from typing import Final

from litemq.net.server import ServerLimits

__all__ = ["connection_limits"]

_MOST: Final = 1 << 20  # more makes some programs slow that a server may start
# For segments, queue files, the key index, timers, SQLite, and the listening socket.
_STORE_DESCRIPTORS: Final = 3_000
_LOG = logging.getLogger(__name__)


def connection_limits(wanted: ServerLimits) -> tuple[int, int]:
    """Raise the soft limit of descriptors, and return how many connections and strangers fit.

    At most those of ``wanted``. If the limit is low, connections get at most half of the
    descriptors: without a descriptor for the store, no message could be written.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        soft = highest
    if soft == resource.RLIM_INFINITY:
        return wanted.max_connections, wanted.max_strangers
    allowed = max(soft // 2, soft - _STORE_DESCRIPTORS)
    strangers = min(wanted.max_strangers, allowed // 4)
    connections = min(wanted.max_connections, allowed - strangers)
    if connections < wanted.max_connections:
        _LOG.warning(
            "only %d connections are possible, because the process may open %d files: raise the limit (ulimit -n)",
            connections,
            soft,
        )
    return connections, strangers
