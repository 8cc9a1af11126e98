"""Test support for users of LiteMQ: an in-memory broker, a fake clock, and pytest fixtures."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litemq.clock import FakeClock
    from litemq.testing.memory_broker import MemoryBroker

__all__ = ["FakeClock", "MemoryBroker"]

# Lazy imports: pytest loads this module with the plug-in, even for tests that do not use it.
_MODULES = {"FakeClock": "litemq.clock", "MemoryBroker": "litemq.testing.memory_broker"}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
