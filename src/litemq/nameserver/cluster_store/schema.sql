-- What a NameServer knows, one row a broker. "user_version" is the version of this layout.
--
--   name    of the broker
--   facts   a serialized BrokerFacts of wire.proto
--   silent  1: it was not heard for a lease
--   crc     crc32c over facts and silent: the database itself has no checksums
CREATE TABLE IF NOT EXISTS brokers (
    name TEXT PRIMARY KEY,
    facts BLOB NOT NULL,
    silent INTEGER NOT NULL,
    crc INTEGER NOT NULL
) WITHOUT ROWID;
