"""LiteMQ: a message queue for Python teams, whose log is a table for Spark."""

from litemq.errors import LiteMQError

__version__ = "0.1.0"

__all__ = ["LiteMQError", "__version__"]
