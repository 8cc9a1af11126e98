"""The table of requests: for each opcode the permission that it needs and the function that handles
it.

Every entry point reads this one table: framed TCP today; access control, gRPC and REST will.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from litemq.broker.runtime.caller import Caller
from litemq.net.frame import Frame

__all__ = ["Handler", "HandlerTable", "Permission"]


class Permission(StrEnum):
    """The right that a request needs: a kind of resource and an action on it.

    Nothing checks them yet.
    """

    TOPIC_PUB = "topic:pub"
    TOPIC_SUB = "topic:sub"  # for a group, which needs ``group:sub`` too
    TOPIC_READ = "topic:read"  # payloads, without a group
    TOPIC_GET = "topic:get"
    TOPIC_CREATE = "topic:create"
    TOPIC_UPDATE = "topic:update"
    TOPIC_DELETE = "topic:delete"
    GROUP_PUB = "group:pub"
    GROUP_GET = "group:get"
    GROUP_UPDATE = "group:update"
    GROUP_DELETE = "group:delete"
    QUERY_OWNER = "query:owner"  # of a Spark query, or ``cluster:update``
    CLUSTER_UPDATE = "cluster:update"
    CLUSTER_REPLICATE = "cluster:replicate"  # the log, from its master to a replica
    LISTED = "listed"  # any user: the answer has only what the user may get


class Handler(NamedTuple):
    """One row: requests with ``opcode`` need ``permission`` and go to ``call``, which answers or
    refuses each exactly once.
    """

    opcode: int
    permission: Permission
    call: Callable[[Caller, Frame], None]


class HandlerTable(Mapping[int, Handler]):
    """The handlers of a broker by opcode. An opcode has one handler."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self._handlers: dict[int, Handler] = {}
        for handler in handlers:
            if handler.opcode in self._handlers:
                raise ValueError(f"opcode {handler.opcode} has two handlers")
            self._handlers[handler.opcode] = handler

    def __getitem__(self, opcode: int) -> Handler:
        return self._handlers[opcode]

    def __iter__(self) -> Iterator[int]:
        return iter(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)
