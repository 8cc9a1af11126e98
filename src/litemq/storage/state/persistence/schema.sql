-- Everything that a broker knows besides its messages, one row a fact, as the log tells it up to "applied".
--
--   key   which fact: see rows.py; the empty key is the account of the others (applied offset, number of rows, sum of their checksums)
--   row   the fact: a serialized Row of control.proto
--   crc   crc32c over key and row: the database itself has no checksums
CREATE TABLE IF NOT EXISTS rows (
    key BLOB PRIMARY KEY,
    row BLOB NOT NULL,
    crc INTEGER NOT NULL
) WITHOUT ROWID;
