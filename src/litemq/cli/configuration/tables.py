"""Tables of settings, one per program, by the keys of ``configs/``.

The defaults are those of the configuration dataclasses, which are imported on first use.
"""

from __future__ import annotations

from typing import Any, Final

from litemq.cli.configuration.kinds import DURATION, INTEGER, NAMED_TEXTS, SIZE, SWITCH, TEXT, TEXTS, choice
from litemq.cli.configuration.setting import Setting, Table

__all__ = ["ARCHIVE", "BROKER", "CLIENT", "NAMESERVER", "TABLES"]


def _broker() -> type[Any]:
    from litemq.server.broker_config import BrokerConfig

    return BrokerConfig


def _nameserver() -> type[Any]:
    from litemq.server.nameserver_config import NameServerConfig

    return NameServerConfig


def _client() -> type[Any]:
    from litemq.client.config import ClientConfig

    return ClientConfig


def _archive() -> type[Any]:
    from litemq.spark.pipelines.config import ArchiveConfig

    return ArchiveConfig


BROKER: Final = Table(
    "broker",
    _broker,
    (
        Setting("broker_id", "broker_id", TEXT, "Permanent id, unique in the cluster."),
        Setting(
            "broker_name",
            "broker_name",
            TEXT,
            "Name shown to NameServers and clients; the replicas of a group share it.",
        ),
        Setting("zone", "zone", TEXT, "Zone of this broker, used by consumers with the same_zone assignment."),
        Setting("network.host", "host", TEXT, "Address to listen on."),
        Setting("network.port", "port", INTEGER, "Port to listen on; 0 picks a free port."),
        Setting(
            "network.advertised_host", "advertised_host", TEXT, "Host that clients connect to; empty means --host."
        ),
        Setting(
            "network.insecure", "insecure", SWITCH, "Allow listening on non-loopback addresses without access control."
        ),
        Setting(
            "nameserver.addresses",
            "nameservers",
            TEXTS,
            "NameServers to register with, as host:port.",
            name="nameserver",
        ),
        Setting("storage.data_path", "data_path", TEXT, "Data directory; created if missing."),
        Setting(
            "storage.flush_mode",
            "flush_mode",
            choice("sync", "async"),
            "Default durability: sync acknowledges a message once it is on disk, async once it is in memory.",
        ),
        Setting("storage.file_size", "file_size", SIZE, "Size of a log segment."),
        Setting(
            "storage.max_record_size", "max_record_bytes", SIZE, "Maximum size of a message, including all its fields."
        ),
        Setting(
            "storage.retention",
            "retention_ms",
            DURATION.or_none(),
            "Age after which messages are deleted; none disables deletion by age.",
        ),
        Setting(
            "storage.max_log_size",
            "max_log_bytes",
            SIZE.or_none(),
            "Log size above which the oldest messages are deleted; none disables deletion by size.",
        ),
        Setting(
            "storage.disk_clean_percent",
            "disk_clean_percent",
            INTEGER,
            "Used part of the disk, in percent, from which the oldest messages are deleted early; 100: never.",
        ),
        Setting(
            "storage.disk_refuse_percent",
            "disk_refuse_percent",
            INTEGER,
            "Used part of the disk, in percent, from which sends are refused.",
        ),
        Setting(
            "retention.keep_unread",
            "keep_unread",
            SWITCH,
            "Keep messages that a group has not read; if the log is full, refuse sends instead.",
        ),
        Setting("topics.auto_create", "auto_create_topics", SWITCH, "Create a missing topic on first use."),
        Setting("topics.default_queues", "default_queues", INTEGER, "Queues of a new topic when no number is given."),
        Setting(
            "quota.messages_per_s",
            "quota_messages_per_s",
            INTEGER,
            "Maximum messages per second from one client; 0 means unlimited.",
        ),
        Setting(
            "quota.bytes_per_s",
            "quota_bytes_per_s",
            SIZE,
            "Maximum bytes per second from one client; 0 means unlimited.",
            name="quota-bytes-per-s",
        ),
        Setting(
            "trace.mode",
            "trace",
            choice("off", "sampled", "all"),
            "Messages whose events are written to LITEMQ_SYS_TRACE: none, a sample, or all.",
        ),
        Setting("trace.one_in", "trace_one_in", INTEGER, "Sampling rate in sampled mode: one message in this many."),
        Setting(
            "transactions.half_lifetime",
            "half_lifetime_ms",
            DURATION,
            "Idle time after which an undecided Spark transaction is rolled back.",
        ),
        Setting(
            "transactions.max_half_size", "max_half_bytes", SIZE, "Maximum size of undecided messages from Spark jobs."
        ),
        Setting(
            "transactions.check_after",
            "check_after_ms",
            DURATION,
            "Time before the broker first asks producers for the outcome of a transaction.",
        ),
        Setting("transactions.check_every", "check_every_ms", DURATION, "Time between further checks."),
        Setting(
            "transactions.max_checks",
            "max_checks",
            INTEGER,
            "Number of checks before the transaction becomes a dead letter.",
        ),
        Setting("shutdown.timeout", "shutdown_timeout_ms", DURATION, "Maximum time for a graceful shutdown."),
        Setting(
            "replication.replicas",
            "replicas",
            INTEGER,
            "Number of brokers that share this one's broker_name and its messages. Experimental.",
        ),
        Setting(
            "replication.min_in_sync",
            "min_in_sync",
            INTEGER,
            "Number of replicas that must have a message before it is confirmed.",
        ),
        Setting("replication.lag", "replica_lag_ms", DURATION, "Time for which a replica may lag and stay in sync."),
        Setting(
            "replication.catch_up_rate",
            "catch_up_bytes_per_s",
            SIZE,
            "Bytes per second for a replica that catches up; 0 means no limit.",
        ),
        Setting("replication.experimental", "experimental", SWITCH, "Allow replication, which is not finished."),
        Setting(
            "replication.role",
            "replication_role",
            choice("master", "slave"),
            "Has no effect, and must be master: replicated groups elect their masters.",
        ),
        Setting(
            "replication.mode",
            "replication_mode",
            choice("async", "sync"),
            "Has no effect: replicated groups are configured with --replicas, and each send with its durability.",
        ),
    ),
)

NAMESERVER: Final = Table(
    "nameserver",
    _nameserver,
    (
        Setting("host", "host", TEXT, "Address to listen on."),
        Setting("port", "port", INTEGER, "Port to listen on; 0 picks a free port."),
        Setting("insecure", "insecure", SWITCH, "Allow listening on non-loopback addresses without access control."),
        Setting("storage.data_path", "data_path", TEXT, "Data directory; created if missing."),
        Setting(
            "store.kind",
            "store_kind",
            choice("embedded", "etcd"),
            "Store of replicated groups: a file, for one NameServer, or etcd, shared by three or more.",
        ),
        Setting(
            "etcd.endpoints",
            "etcd_endpoints",
            TEXTS,
            "Members of the etcd cluster, as host:port, such as 127.0.0.1:2379.",
        ),
        Setting(
            "etcd.prefix",
            "etcd_prefix",
            TEXT,
            "Prefix of the keys in etcd, such as /litemq; the same for all NameServers.",
        ),
        Setting("etcd.timeout", "etcd_timeout_ms", DURATION, "Maximum time for a request to etcd, with all retries."),
        Setting("heartbeat.interval", "heartbeat_interval_ms", DURATION, "Time between heartbeats of a broker."),
        Setting(
            "heartbeat.timeout",
            "heartbeat_timeout_ms",
            DURATION,
            "Time without a heartbeat after which a broker is removed from the routes.",
        ),
        Setting(
            "route.update_interval",
            "route_update_interval_ms",
            DURATION,
            "Time between checks for brokers that have timed out.",
        ),
        Setting(
            "election.lease",
            "master_lease_ms",
            DURATION,
            "Time without contact to the master of a replicated group after which another one is elected.",
        ),
        Setting("shutdown.timeout", "shutdown_timeout_ms", DURATION, "Maximum time for a graceful shutdown."),
    ),
)

CLIENT: Final = Table(
    "client",
    _client,
    (
        Setting("url", "url", TEXT, "NameServers, as litemq://host:port,host:port.", variable="LITEMQ_URL"),
        Setting("client_id", "client_id", TEXT, "Client id; empty means host name, process id and a random suffix."),
        Setting(
            "send.durability",
            "durability",
            choice("none", "memory", "disk", "replicas"),
            "Guarantee of an acknowledgement; if not set, the broker's default.",
        ),
        Setting(
            "send.linger",
            "linger_ms",
            DURATION,
            "Time a batch waits for more messages; 0 means one tick of the event loop.",
        ),
        Setting("send.max_batch_size", "max_batch_bytes", SIZE, "Maximum size of a batch."),
        Setting(
            "send.max_batch_messages",
            "max_batch_messages",
            INTEGER,
            "Maximum messages in a batch; 1 disables batching.",
        ),
        Setting(
            "send.max_in_flight_requests", "max_in_flight_requests", INTEGER, "Maximum requests in flight per queue."
        ),
        Setting("send.buffer_size", "buffer_bytes", SIZE, "Size of the send buffer."),
        Setting(
            "send.compression_type", "compression_type", choice("none", "lz4", "zstd"), "Compression of message bodies."
        ),
        Setting("send.compression_min_size", "compression_min_bytes", SIZE, "Minimum body size to compress."),
        Setting(
            "send.queue_choice",
            "queue_choice",
            choice("round_robin", "random", "key_hash", "least_latency"),
            "Queue selection for messages without an ordering key.",
        ),
        Setting(
            "send.delivery_timeout", "delivery_timeout_ms", DURATION, "Maximum time for a send, including all retries."
        ),
        Setting(
            "send.max_record_size", "max_record_bytes", SIZE, "Maximum size of a message, including all its fields."
        ),
        Setting(
            "receive.auto_offset_reset",
            "auto_offset_reset",
            choice("earliest", "latest", "error"),
            "Start position of a group without committed offsets.",
        ),
        Setting(
            "receive.enable_auto_commit", "enable_auto_commit", SWITCH, "Commit acknowledged offsets periodically."
        ),
        Setting("receive.auto_commit_interval", "auto_commit_interval_ms", DURATION, "Time between automatic commits."),
        Setting(
            "receive.session_timeout",
            "session_timeout_ms",
            DURATION,
            "Time without a heartbeat after which a consumer loses its queues.",
        ),
        Setting(
            "receive.assignment",
            "assignment",
            choice("average", "consistent_hash", "same_zone"),
            "Assignment of queues to the consumers of a group; must be the same for all of them.",
        ),
        Setting("receive.zone", "zone", TEXT, "Zone of this client, for the same_zone assignment."),
        Setting(
            "receive.read_from",
            "read_from",
            choice("master", "replica"),
            "Replica of a group that serves reads without a consumer group.",
        ),
        Setting("receive.max_poll_records", "max_poll_records", INTEGER, "Maximum messages per fetch."),
        Setting("receive.prefetch_size", "prefetch_bytes", SIZE, "Maximum size of prefetched messages per consumer."),
        Setting(
            "receive.fetch_wait",
            "fetch_wait_ms",
            DURATION,
            "Maximum time a broker holds a fetch that finds no messages.",
        ),
        Setting("receive.max_body_size", "max_body_bytes", SIZE, "Maximum size of a body after decompression."),
        Setting(
            "receive.offsets_directory", "offsets_directory", TEXT, "Directory for the offsets of broadcast consumers."
        ),
        Setting("connection.connections_per_broker", "connections_per_broker", INTEGER, "Connections to each broker."),
        Setting("connection.connect_timeout", "connect_timeout_ms", DURATION, "Maximum time to connect."),
        Setting(
            "connection.contact_timeout",
            "contact_timeout_ms",
            DURATION,
            "Time after which lists go on without a broker that does not answer.",
        ),
        Setting("connection.request_timeout", "request_timeout_ms", DURATION, "Maximum time to wait for a response."),
        Setting("connection.retry_backoff", "retry_backoff_ms", DURATION, "Initial delay between retries."),
        Setting("connection.max_retry_backoff", "max_retry_backoff_ms", DURATION, "Maximum delay between retries."),
        Setting("connection.route_refresh", "route_refresh_ms", DURATION, "Time between route refreshes."),
        Setting("shutdown.timeout", "shutdown_timeout_ms", DURATION, "Maximum time for closing the client."),
    ),
    other_defaults={"url": "litemq://127.0.0.1:9876"},
)

ARCHIVE: Final = Table(
    "archive",
    _archive,
    (
        Setting("source.url", "url", TEXT, "NameServers, as litemq://host:port,host:port.", variable="LITEMQ_URL"),
        Setting("source.topics", "topics", TEXTS, "Topics to archive; empty means all topics, including future ones."),
        Setting(
            "source.topic_pattern",
            "topic_pattern",
            TEXT,
            "Regular expression that the full names of archived topics match; excludes source.topics.",
        ),
        Setting(
            "source.starting_offsets",
            "starting_offsets",
            choice("earliest", "latest"),
            "Start position of a stream without a checkpoint.",
        ),
        Setting(
            "source.fail_on_data_loss",
            "fail_on_data_loss",
            SWITCH,
            "Stop if messages were deleted before they were archived; otherwise continue and count them.",
        ),
        Setting(
            "source.read_from",
            "read_from",
            choice("master", "replica"),
            "Replica of a group that messages are read from: its master, or another one in sync.",
        ),
        Setting(
            "table.location",
            "table",
            TEXT,
            "Directory or URL of the table, such as s3://bucket/messages; created if missing.",
        ),
        Setting(
            "table.format",
            "table_format",
            choice("delta", "delta-spark", "parquet"),
            "delta (by delta-rs), delta-spark (by Spark's Delta connector) or parquet (plain files with manifests).",
        ),
        Setting("table.codec", "codec", choice("zstd", "snappy", "none"), "Compression of the table's files."),
        Setting("table.codec_level", "codec_level", INTEGER, "Compression level of zstd."),
        Setting(
            "stream.checkpoint",
            "checkpoint",
            TEXT,
            "Checkpoint location of the stream; empty means _checkpoint in the table's directory.",
        ),
        Setting(
            "stream.trigger",
            "trigger_ms",
            DURATION,
            "Time between batches; 0 starts a batch as soon as the previous one ends.",
        ),
        Setting("stream.max_rows_per_batch", "max_rows_per_batch", INTEGER, "Maximum messages in a batch."),
        Setting("stream.task_size", "task_bytes", SIZE, "Bytes of messages that one task reads."),
        Setting(
            "parsed.location",
            "parsed_location",
            TEXT,
            "Location of the parsed tables; empty means the table's location with the suffix -parsed.",
        ),
        Setting(
            "parsed.topics",
            "parsed",
            NAMED_TEXTS,
            "Topics whose JSON bodies get a table of their own: the word variant, or SQL columns.",
        ),
        Setting(
            "upkeep.compact_every_batches",
            "compact_every_batches",
            INTEGER,
            "Batches between compactions; 0 disables compaction in the stream.",
        ),
        Setting("upkeep.compact_target_size", "compact_target_bytes", SIZE, "Target file size of a compaction."),
        Setting("upkeep.vacuum_keep", "vacuum_keep_ms", DURATION, "Time that files no longer in the table are kept."),
        Setting(
            "spark.master",
            "spark_master",
            TEXT,
            "Spark master; empty means Spark's own setting, or all cores of this machine.",
        ),
        Setting("spark.settings", "spark_settings", NAMED_TEXTS, "Additional Spark settings, by name."),
    ),
)

TABLES: Final = {table.program: table for table in (BROKER, NAMESERVER, CLIENT, ARCHIVE)}
