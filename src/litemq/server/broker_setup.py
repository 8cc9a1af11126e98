"""The parts of a broker and of a replica that follow from the settings alike."""

from __future__ import annotations

import gc
import logging
import sys

from litemq import __version__
from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.errors import DiskFullError
from litemq.net.server import ServerLimits
from litemq.proto.wire_pb2 import BrokerFacts, TopicQueues
from litemq.server.broker_config import BrokerConfig
from litemq.server.descriptors import connection_limits
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore

__all__ = ["broker_facts", "broker_limits", "close_store", "frame_limits", "store_config", "tune_interpreter"]

_LOG = logging.getLogger(__name__)


def store_config(config: BrokerConfig) -> StoreConfig:
    """Return the settings of the store."""
    return StoreConfig(
        segment_bytes=config.file_size,
        max_record_bytes=config.max_record_bytes,
        retention_ms=config.retention_ms,
        max_log_bytes=config.max_log_bytes,
        keep_unread=config.keep_unread,
        disk_clean_percent=config.disk_clean_percent,
        disk_refuse_percent=config.disk_refuse_percent,
    )


def broker_limits(config: BrokerConfig) -> BrokerLimits:
    """Return the limits of the broker's services."""
    return BrokerLimits(
        auto_create_topics=config.auto_create_topics,
        default_queues=config.default_queues,
        replicas=config.replicas,
        quota_messages_per_s=config.quota_messages_per_s,
        quota_bytes_per_s=config.quota_bytes_per_s,
        trace=config.trace,
        trace_one_in=config.trace_one_in,
        half_lifetime_ms=config.half_lifetime_ms,
        check_after_ms=config.check_after_ms,
        check_every_ms=config.check_every_ms,
        max_checks=config.max_checks,
        max_half_bytes=config.max_half_bytes,
    )


def broker_facts(config: BrokerConfig, broker: Broker, port: int, started_at: int, *, epoch: int = 0) -> BrokerFacts:
    """Return what NameServers publish of a broker; ``epoch`` is that of a group's master."""
    return BrokerFacts(
        name=config.broker_name,
        host=config.reachable_host,
        port=port,
        started_at=started_at,
        default_durability=config.default_durability,
        topics=[
            TopicQueues(topic=topic.name, queues=topic.queues, has_priorities=topic.has_priorities)
            for topic in broker.topics
        ],
        software=f"litemq {__version__}",
        epoch=epoch,
    )


def frame_limits(config: BrokerConfig) -> ServerLimits:
    """Return the limits of the connections."""
    connections, strangers = connection_limits(ServerLimits())
    return ServerLimits(
        max_frame_bytes=max(16 << 20, 2 * config.max_record_bytes),
        max_connections=connections,
        max_strangers=strangers,
    )


def close_store(store: DiskStore) -> None:
    """Close ``store``; it may wait for the disk."""
    try:
        store.close()
    except DiskFullError as error:
        _LOG.warning("%s: nothing is lost, and the next start reads the end of the log again", error)


def tune_interpreter() -> None:
    """Tune the interpreter for answers within milliseconds beside writer threads.

    Threads switch after 0.5 ms instead of 5. The garbage collector ignores imported modules and
    runs rarely, because the objects of a request are freed at the end of its tick anyway.
    """
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
