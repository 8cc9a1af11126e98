"""The store: one commit log, and the projections that are derived from it."""
