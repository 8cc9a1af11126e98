"""Validation of broker registrations: names, address, topics and limits."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from litemq.errors import InvalidArgumentError
from litemq.nameserver.config import NameServerLimits
from litemq.proto.wire_pb2 import BrokerFacts
from litemq.types import LATEST_TIME_MS, MAX_NAME_BYTES, Durability, check_name, is_system_name

__all__ = ["check_facts", "check_topic"]

_SYSTEM_NAME: Final = re.compile(r"[A-Za-z0-9_.%\-]+", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9_.:%\-]{1,253}", re.ASCII)
_UNREACHABLE: Final = {"0.0.0.0", "::", "0:0:0:0:0:0:0:0"}  # noqa: S104  addresses to listen on, not to reach
_MAX_SOFTWARE: Final = 64


def check_topic(name: str) -> str:
    """Return ``name``, or raise unless it is a valid topic name; accept the broker's own topics."""
    if not is_system_name(name):
        return check_name(name)
    if len(name) > MAX_NAME_BYTES or not _SYSTEM_NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"topic name {name[:MAX_NAME_BYTES]!r}: use at most {MAX_NAME_BYTES} of A-Z a-z 0-9 _ - . %"
        )
    return name


def check_facts(facts: BrokerFacts, limits: NameServerLimits, known: AbstractSet[str]) -> dict[str, int]:
    """Return the number of queues by topic, or raise ``InvalidArgumentError``.

    The names of ``known`` topics are not checked again.
    """
    check_name(facts.name, "broker")
    who = f"broker {facts.name}"
    if not _HOST.fullmatch(facts.host):
        raise InvalidArgumentError(f"{who}: host {facts.host[:253]!r} is no valid host name or address")
    if facts.host in _UNREACHABLE:
        raise InvalidArgumentError(
            f"{who}: clients cannot connect to {facts.host}: set network.advertised_host to the address that they use"
        )
    if not 1 <= facts.port <= 65535:
        raise InvalidArgumentError(f"{who}: port {facts.port}: choose 1 … 65535")
    if facts.started_at > LATEST_TIME_MS:
        raise InvalidArgumentError(f"{who}: started_at {facts.started_at} is no valid time (ms)")
    if facts.default_durability > max(Durability):
        raise InvalidArgumentError(
            f"{who}: default_durability {facts.default_durability}: choose 0 … {max(Durability)}"
        )
    if len(facts.software) > _MAX_SOFTWARE or not facts.software.isprintable():
        raise InvalidArgumentError(f"{who}: software must be at most {_MAX_SOFTWARE} printable characters")
    if len(facts.topics) > limits.max_topics:
        raise InvalidArgumentError(
            f"{who}: {len(facts.topics)} topics: a NameServer accepts {limits.max_topics} per broker"
        )
    queues = {topic.topic: topic.queues for topic in facts.topics}
    if len(queues) != len(facts.topics):
        raise InvalidArgumentError(f"{who}: the list of topics has a duplicate")
    for name in queues.keys() - known:
        check_topic(name)
    for name, count in queues.items():
        if not 1 <= count <= limits.max_queues:
            raise InvalidArgumentError(f"{who}: topic {name} has {count} queues: choose 1 … {limits.max_queues}")
    return queues
