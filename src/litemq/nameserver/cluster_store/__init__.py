"""The NameServer's persistent copy of broker registrations."""
