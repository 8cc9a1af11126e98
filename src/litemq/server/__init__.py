"""The server processes: a broker and a NameServer on TCP, with their settings."""
