"""Tables of archived messages: layout, writing and reading. Needs pyarrow, but not Spark."""
