"""The broker without sockets: its capabilities over one store."""
