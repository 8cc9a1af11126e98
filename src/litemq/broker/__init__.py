"""What a broker does, without a socket: sending, reading, groups, topics, over a store."""
