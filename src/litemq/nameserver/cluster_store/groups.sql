-- The facts of replicated groups. "user_version" is the version of this layout.
--
--   name      of the group
--   fact      a serialized StoredGroup of cluster.proto
--   revision  of the fact; rises with each change
--   lease_ms  how long the last lease was granted for; 0: there is none
--   crc       crc32c over fact, revision and lease_ms; SQLite has no checksums
CREATE TABLE groups (
    name TEXT PRIMARY KEY,
    fact BLOB NOT NULL,
    revision INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL,
    crc INTEGER NOT NULL
) WITHOUT ROWID;

-- One row: a missing group changes it, so damage cannot remove a group unnoticed.
--
--   is_lost   1: an earlier file was damaged, so groups may have existed that are not in this one
--   crc       crc32c over is_lost and the crc of each group, in the order of their names
CREATE TABLE contents (
    is_lost INTEGER NOT NULL,
    crc INTEGER NOT NULL
);
