"""For tests of programs that use LiteMQ: an engine in this process, a clock that moves when told to, fixtures for pytest."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litemq.clock import FakeClock
    from litemq.testing.memory_broker import MemoryBroker

__all__ = ["FakeClock", "MemoryBroker"]

# Imported when they are first used: pytest loads the plugin, and so this module, also for tests that use none of it.
_PLACES = {"FakeClock": "litemq.clock", "MemoryBroker": "litemq.testing.memory_broker"}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(place), name)
