"""For tests of programs that use LiteMQ: an engine in this process, a clock that moves when told to, a pytest fixture."""

from litemq.clock import FakeClock

__all__ = ["FakeClock"]
