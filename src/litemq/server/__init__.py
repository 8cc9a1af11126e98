"""The processes: a NameServer and a broker behind framed TCP, with their settings."""
