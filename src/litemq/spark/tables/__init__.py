"""Tables of archived messages: how they are laid out, written and read. Needs pyarrow, and no Spark."""
