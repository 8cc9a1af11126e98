"""Every setting of every program, by its key in ``configs/``. The defaults stand in the dataclasses."""

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
        Setting("broker_id", "broker_id", TEXT, "Who it is, once and for all: unique in the cluster."),
        Setting("broker_name", "broker_name", TEXT, "The name that NameServers and clients know it by."),
        Setting("zone", "zone", TEXT, "Where it is: consumers that choose same_zone get the queues of brokers near them."),
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
        Setting(
            "trace.mode",
            "trace",
            choice("off", "sampled", "all"),
            "Which messages' events are told in LITEMQ_SYS_TRACE: of none, of one in so many, or of all.",
        ),
        Setting("trace.one_in", "trace_one_in", INTEGER, "Of how many messages one is traced, where the mode is sampled."),
        Setting(
            "transactions.half_lifetime",
            "half_lifetime_ms",
            DURATION,
            "What a job writes and nobody decides or adds to for so long is rolled back.",
        ),
        Setting("transactions.max_half_size", "max_half_bytes", SIZE, "What jobs write may wait for a decision up to this size."),
        Setting(
            "transactions.check_after",
            "check_after_ms",
            DURATION,
            "When producers are asked for the outcome of a transaction for the first time.",
        ),
        Setting("transactions.check_every", "check_every_ms", DURATION, "How long it takes until they are asked again."),
        Setting(
            "transactions.max_checks",
            "max_checks",
            INTEGER,
            "How often they are asked; then the transaction goes to the dead letters.",
        ),
        Setting("shutdown.timeout", "shutdown_timeout_ms", DURATION, "How long a stop may take."),
        Setting("replication.role", "replication_role", choice("master", "slave"), "master; there are no slaves yet."),
        Setting("replication.mode", "replication_mode", choice("async", "sync"), "How slaves follow; without effect until there are any."),
    ),
)

NAMESERVER: Final = Table(
    "nameserver",
    _nameserver,
    (
        Setting("host", "host", TEXT, "The address to listen on."),
        Setting("port", "port", INTEGER, "The port to listen on; 0: any that is free."),
        Setting("insecure", "insecure", SWITCH, "Listen on other addresses than this machine's own, with nobody's rights checked."),
        Setting("storage.data_path", "data_path", TEXT, "The data directory; made if it is missing."),
        Setting("heartbeat.interval", "heartbeat_interval_ms", DURATION, "How often a broker says that it is there."),
        Setting("heartbeat.timeout", "heartbeat_timeout_ms", DURATION, "After how much silence a broker leaves the routes."),
        Setting("route.update_interval", "route_update_interval_ms", DURATION, "How often the routes are looked over for silent brokers."),
        Setting("shutdown.timeout", "shutdown_timeout_ms", DURATION, "How long a stop may take."),
    ),
)

CLIENT: Final = Table(
    "client",
    _client,
    (
        Setting("url", "url", TEXT, "Where the NameServers are: litemq://host:port,host:port.", variable="LITEMQ_URL"),
        Setting("client_id", "client_id", TEXT, "Who it is; empty: host, process and a random end."),
        Setting(
            "send.durability",
            "durability",
            choice("none", "memory", "disk", "replicas"),
            "What an acknowledgement promises; not said: what the broker promises by default.",
        ),
        Setting("send.linger", "linger_ms", DURATION, "How long a batch waits for more; 0: for one turn of the event loop."),
        Setting("send.max_batch_size", "max_batch_bytes", SIZE, "The largest batch."),
        Setting("send.max_batch_messages", "max_batch_messages", INTEGER, "The most messages of a batch; 1: one message a request."),
        Setting("send.max_in_flight_requests", "max_in_flight_requests", INTEGER, "Requests on their way, a queue."),
        Setting("send.buffer_size", "buffer_bytes", SIZE, "What may wait to be sent."),
        Setting("send.compression_type", "compression_type", choice("none", "lz4", "zstd"), "How bodies are compressed."),
        Setting("send.compression_min_size", "compression_min_bytes", SIZE, "Smaller bodies are not compressed."),
        Setting(
            "send.queue_choice",
            "queue_choice",
            choice("round_robin", "random", "key_hash", "least_latency"),
            "The queue of a message without ordering key.",
        ),
        Setting("send.delivery_timeout", "delivery_timeout_ms", DURATION, "When a send is given up, all tries together."),
        Setting("send.max_record_size", "max_record_bytes", SIZE, "The largest message, all fields together."),
        Setting(
            "receive.auto_offset_reset",
            "auto_offset_reset",
            choice("earliest", "latest", "error"),
            "Where a group begins that has not read yet.",
        ),
        Setting("receive.enable_auto_commit", "enable_auto_commit", SWITCH, "Commit what was acknowledged every so often."),
        Setting("receive.auto_commit_interval", "auto_commit_interval_ms", DURATION, "How often."),
        Setting(
            "receive.session_timeout", "session_timeout_ms", DURATION, "A consumer that was silent for so long loses its queues to others."
        ),
        Setting(
            "receive.assignment",
            "assignment",
            choice("average", "consistent_hash", "same_zone"),
            "How the queues are shared among the consumers of a group; all of them choose the same.",
        ),
        Setting("receive.zone", "zone", TEXT, "Where this client is, for same_zone."),
        Setting("receive.max_poll_records", "max_poll_records", INTEGER, "Messages that are fetched at once."),
        Setting("receive.prefetch_size", "prefetch_bytes", SIZE, "What a consumer fetches ahead."),
        Setting("receive.fetch_wait", "fetch_wait_ms", DURATION, "How long a broker holds a fetch that finds nothing."),
        Setting("receive.max_body_size", "max_body_bytes", SIZE, "What a compressed body may grow to."),
        Setting("receive.offsets_directory", "offsets_directory", TEXT, "Where a broadcast's progress is kept."),
        Setting("connection.connections_per_broker", "connections_per_broker", INTEGER, "Connections to each broker."),
        Setting("connection.connect_timeout", "connect_timeout_ms", DURATION, "How long a connection may take."),
        Setting("connection.request_timeout", "request_timeout_ms", DURATION, "How long an answer may take."),
        Setting("connection.retry_backoff", "retry_backoff_ms", DURATION, "The first wait before a second try."),
        Setting("connection.max_retry_backoff", "max_retry_backoff_ms", DURATION, "The longest wait before another try."),
        Setting("connection.route_refresh", "route_refresh_ms", DURATION, "How often the routes are fetched anew."),
        Setting("shutdown.timeout", "shutdown_timeout_ms", DURATION, "How long closing may take."),
    ),
    beside={"url": "litemq://127.0.0.1:9876"},
)

ARCHIVE: Final = Table(
    "archive",
    _archive,
    (
        Setting("source.url", "url", TEXT, "Where the NameServers are: litemq://host:port,host:port.", variable="LITEMQ_URL"),
        Setting("source.topics", "topics", TEXTS, "The topics to archive; none: all that there are and will be."),
        Setting("source.topic_pattern", "topic_pattern", TEXT, "Instead of topics: those whose whole names fit a regular expression."),
        Setting(
            "source.starting_offsets", "starting_offsets", choice("earliest", "latest"), "Where a stream begins that has no checkpoint yet."
        ),
        Setting(
            "source.fail_on_data_loss",
            "fail_on_data_loss",
            SWITCH,
            "Stop where messages are gone that were not archived; else go on, and count them.",
        ),
        Setting(
            "table.location", "table", TEXT, "The folder of the table, or an address such as s3://bucket/messages; made if it is missing."
        ),
        Setting(
            "table.format",
            "table_format",
            choice("delta", "delta-spark", "parquet"),
            "delta, by delta-rs; delta-spark, by Spark's own connector; parquet, plain files with manifests.",
        ),
        Setting("table.codec", "codec", choice("zstd", "snappy", "none"), "How files are compressed."),
        Setting("table.codec_level", "codec_level", INTEGER, "How hard zstd tries."),
        Setting(
            "stream.checkpoint", "checkpoint", TEXT, "Where the stream keeps how far it is; empty: the folder _checkpoint in the table's."
        ),
        Setting("stream.trigger", "trigger_ms", DURATION, "How often there is a batch; 0: as soon as the last one is done."),
        Setting("stream.max_rows_per_batch", "max_rows_per_batch", INTEGER, "The most messages of a batch."),
        Setting("stream.task_size", "task_bytes", SIZE, "How many bytes of messages one task reads."),
        Setting("parsed.location", "parsed_location", TEXT, "Where parsed tables are; empty: the table's location with -parsed behind it."),
        Setting(
            "parsed.topics",
            "parsed",
            NAMED_TEXTS,
            "Topics whose JSON bodies get a table of their own: variant, or columns as in SQL.",
        ),
        Setting(
            "upkeep.compact_every_batches", "compact_every_batches", INTEGER, "Small files are joined every so many batches; 0: never."
        ),
        Setting("upkeep.compact_target_size", "compact_target_bytes", SIZE, "How large a joined file becomes."),
        Setting("upkeep.vacuum_keep", "vacuum_keep_ms", DURATION, "For how long files stay that the table does not name any more."),
        Setting("spark.master", "spark_master", TEXT, "Spark's master; empty: as Spark was told elsewhere, or all cores here."),
        Setting("spark.settings", "spark_settings", NAMED_TEXTS, "More of Spark's own settings, by their names."),
    ),
)

TABLES: Final = {table.program: table for table in (BROKER, NAMESERVER, CLIENT, ARCHIVE)}
