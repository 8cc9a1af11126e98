"""The ``litemq`` command: a noun, then a verb; one file a noun."""
