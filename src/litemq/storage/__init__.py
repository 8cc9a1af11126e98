"""The store: one log, and what is derived from it."""
