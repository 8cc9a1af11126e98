-- The state of a broker besides its messages, as of log offset "applied".
--
--   key   the key of the row: see rows.py. The empty key is the account (applied offset, number of rows, sum of checksums)
--   row   a serialized Row of control.proto
--   crc   crc32c over key and row, because SQLite has no checksums
CREATE TABLE IF NOT EXISTS rows (
    key BLOB PRIMARY KEY,
    row BLOB NOT NULL,
    crc INTEGER NOT NULL
) WITHOUT ROWID;
