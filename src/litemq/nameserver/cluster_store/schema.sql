-- The registrations of a NameServer, one row per broker. "user_version" is the version of this layout.
--
--   name    of the broker
--   facts   a serialized BrokerFacts of wire.proto
--   silent  1: its lease has expired
--   crc     crc32c over facts and silent; SQLite has no checksums
CREATE TABLE IF NOT EXISTS brokers (
    name TEXT PRIMARY KEY,
    facts BLOB NOT NULL,
    silent INTEGER NOT NULL,
    crc INTEGER NOT NULL
) WITHOUT ROWID;
