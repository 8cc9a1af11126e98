"""Support for tests of programs that use LiteMQ: an engine in this process, a clock that tests move, fixtures for pytest."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litemq.clock import FakeClock
    from litemq.testing.memory_broker import MemoryBroker

__all__ = ["FakeClock", "MemoryBroker"]

# Imported when they are first used: pytest loads the plugin, and so this module, also for tests that use none of it.
_MODULES = {"FakeClock": "litemq.clock", "MemoryBroker": "litemq.testing.memory_broker"}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
