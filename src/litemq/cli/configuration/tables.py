"""Every setting of every program, by its key in ``configs/``. The defaults stand in the dataclasses."""

from __future__ import annotations

from typing import Any, Final

from litemq.cli.configuration.kinds import DURATION, INTEGER, SIZE, SWITCH, TEXT, TEXTS, choice
from litemq.cli.configuration.setting import Setting, Table

__all__ = ["BROKER", "TABLES"]


def _broker() -> type[Any]:
    from litemq.server.broker_config import BrokerConfig

    return BrokerConfig


BROKER: Final = Table(
    "broker",
    _broker,
    (
        Setting("broker_id", "broker_id", TEXT, "Who it is, once and for all: unique in the cluster."),
        Setting("broker_name", "broker_name", TEXT, "The name that NameServers and clients know it by."),
        Setting("network.host", "host", TEXT, "The address to listen on."),
        Setting("network.port", "port", INTEGER, "The port to listen on; 0: any that is free."),
        Setting("network.advertised_host", "advertised_host", TEXT, "How clients reach it, if not by --host."),
        Setting("network.insecure", "insecure", SWITCH, "Listen on other addresses than this machine's own, with nobody's rights checked."),
        Setting("nameserver.addresses", "nameservers", TEXTS, "The NameServers to register with.", name="nameserver"),
        Setting("storage.data_path", "data_path", TEXT, "The data directory; made if it is missing."),
        Setting(
            "storage.flush_mode",
            "flush_mode",
            choice("sync", "async"),
            "When a message is acknowledged whose producer does not say: sync, on disk; async, in memory.",
        ),
        Setting("storage.file_size", "file_size", SIZE, "The size of a segment of the log."),
        Setting("storage.max_record_size", "max_record_bytes", SIZE, "The largest message, all fields together."),
        Setting("storage.retention", "retention_ms", DURATION.or_none(), "Messages that are older go."),
        Setting("storage.max_log_size", "max_log_bytes", SIZE.or_none(), "What is more than that goes, oldest first."),
        Setting("topics.auto_create", "auto_create_topics", SWITCH, "A message to a topic that is not there creates it."),
        Setting("topics.default_queues", "default_queues", INTEGER, "Queues of a topic that is created without saying how many."),
        Setting("quota.messages_per_s", "quota_messages_per_s", INTEGER, "Messages a second that one client may send; 0: any number."),
        Setting(
            "quota.bytes_per_s",
            "quota_bytes_per_s",
            SIZE,
            "Bytes a second that one client may send; 0: any number.",
            name="quota-bytes-per-s",
        ),
        Setting("shutdown.timeout", "shutdown_timeout_ms", DURATION, "How long a stop may take."),
        Setting("replication.role", "replication_role", choice("master", "slave"), "master; there are no slaves yet."),
        Setting("replication.mode", "replication_mode", choice("async", "sync"), "How slaves follow; without effect until there are any."),
    ),
)

TABLES: Final = {table.program: table for table in (BROKER,)}
