"""Wrong clocks of brokers and NameServers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from random import Random
from typing import Final, NamedTuple

from support.cluster_chaos.site import Site
from support.cluster_chaos.targets import Targets
from support.time_history import Stamps

__all__ = ["CLOCK_FAULTS", "ClockError", "ClockFaults"]

HOUR_MS: Final = 3_600_000
_SLOWER_BY: Final = 10  # a log that is ahead of the wall clock goes on more slowly by a tenth, until both agree
_RESTARTED: Final = 0.5  # of the faults: a running broker follows a clock that is ahead only after a minute


class ClockError(NamedTuple):
    """The error of the wall clock (ms), and the rate of elapsed time."""

    ahead_ms: int = 0
    rate: float = 1.0

    def __str__(self) -> str:
        return f"{self.ahead_ms:+} ms, rate {self.rate:g}"


CLOCK_FAULTS: Final = {
    "an hour off": (ClockError(HOUR_MS), ClockError(-HOUR_MS)),
    "400 ms off": (ClockError(400), ClockError(-400)),
    "rate of time": (ClockError(rate=0.5), ClockError(rate=2.0)),
}


class ClockFaults:
    """Faults by name, and the times at which the clocks of brokers were wrong."""

    def __init__(self, site: Site, targets: Targets, chance: Random) -> None:
        self._site = site
        self._targets = targets
        self._chance = chance
        self.stamps: list[Stamps] = []  # that brokers with wrong clocks may have given records
        self.wrong_rates: list[tuple[float, float]] = []  # from when to when (monotonic)
        self.by_name = {
            f"clock of {of}: {kind}": partial(self._fault, of, errors)
            for of in ("master", "follower", "nameserver", "all brokers")
            for kind, errors in CLOCK_FAULTS.items()
        }

    def _fault(self, of: str, errors: tuple[ClockError, ...]) -> AbstractAsyncContextManager[str]:
        return self._wrong(of, self._chance.choice(errors), is_restarted=self._chance.random() < _RESTARTED)

    @asynccontextmanager
    async def _wrong(self, of: str, error: ClockError, *, is_restarted: bool) -> AsyncIterator[str]:
        """Give the hosts of ``of`` wrong clocks.

        A broker's clock that was ahead would be wrong for hours, as it never goes back. The fault
        ends with a restart instead, which takes the right time. The clock of the log stays ahead.
        """
        targets = await self._targets.choose_running(of)
        begin, begin_ms = time.monotonic(), round(time.time() * 1000)
        for target in targets:
            self._site.clocks[target.name].set(error.ahead_ms, error.rate)
            if is_restarted:
                target.restart()
        text = f"{' '.join(each.name for each in targets)}: {error}{', restarted' if is_restarted else ''}"
        yield text if targets else ""
        for target in targets:
            self._site.clocks[target.name].set_right()
            if target.is_running:
                target.restart()
        lasted = time.monotonic() - begin
        if of != "nameserver":
            lead_ms = max(0, error.ahead_ms) + max(0.0, error.rate - 1) * lasted * 1000
            self.stamps.append(Stamps(begin_ms, round(time.time() * 1000 + _SLOWER_BY * lead_ms)))
        if error.rate != 1:
            self.wrong_rates.append((begin, time.monotonic()))
