"""Where a NameServer's facts live: the process itself can be restarted at any time."""
