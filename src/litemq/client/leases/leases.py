"""The leases that a client holds: messages are its own until they are settled, or the time is over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Backend, LeaseTerms
from litemq.client.leases.lease import Lease
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Handling
from litemq.client.settling.settler import Settler
from litemq.errors import LiteMQError, ProtocolError
from litemq.format.messages import decode_messages

__all__ = ["Leases"]

_LOG = logging.getLogger(__name__)
_SWEEP: Final = 1.0  # seconds


class Leases:
    """Asks for leases, renews those of messages that are processed or wait here, and gives back what is left at the end."""

    def __init__(self, backend: Backend, config: ClientConfig, serializers: Serializers) -> None:
        self._backend = backend
        self._config = config
        self._serializers = serializers
        self._loop = asyncio.get_running_loop()
        self._settlers: dict[tuple[str, str, str], Settler] = {}
        self._held: set[Lease] = set()
        self._asking: set[asyncio.Task[Lease | None]] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._wakes_at = 0.0  # when the next lease is renewed
        self._swept = self._loop.time()

    def settler(self, broker: str, topic: str, group: str) -> Settler:
        """What tells a broker how messages of a group were settled."""
        settler = self._settlers.get((broker, topic, group))
        if settler is None:
            settler = self._settlers[broker, topic, group] = Settler(self._backend, broker, topic, group, self._config)
        return settler

    # Asking -------------------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        broker: str,
        topic: str,
        group: str,
        terms: LeaseTerms,
        handling: Handling,
        owner: object,
        *,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
        ahead: bool = False,
    ) -> Lease | None:
        """Messages under a lease; ``ahead``: they wait here for whoever takes them. What comes after a cancellation is given back."""

        async def asking() -> Lease | None:
            answer = await self._backend.lease(broker, topic, group, terms, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms)
            fields = decode_messages(answer.records)
            if len(fields) != len(answer.counts):
                raise ProtocolError(f"broker {broker!r} leased {len(fields)} messages, and told the counts of {len(answer.counts)}")
            if not fields:
                return None
            lease = Lease(
                self.settler(broker, topic, group),
                answer.token,
                terms,
                handling,
                owner,
                self._serializers,
                self._config.max_body_bytes,
                self._is_used,
            )
            lease.take_in(fields, answer.counts, self._loop.time(), ahead=ahead)
            self._hold(lease)
            return lease

        task = self._loop.create_task(asking(), name=f"litemq leases of {topic}")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_give_back)
            raise

    def _hold(self, lease: Lease) -> None:
        self._held.add(lease)
        if lease.ahead:
            self._is_used(lease.renew_at)
        if self._renewing is None:
            self._renewing = self._loop.create_task(self._renew(), name="litemq renews leases")
        now = self._loop.time()
        if now > self._swept + _SWEEP:
            self._swept = now
            self._held = {each for each in self._held if each.open and (each.is_renewed or each.until > now)}

    def _is_used(self, renew_at: float) -> None:
        """Something is to stay here: whoever renews is woken only where that would be too late else."""
        if renew_at < self._wakes_at:
            self._changed.set()

    # Renewing -----------------------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        """When half of a lease has passed, whatever is still in use gets a whole one again."""
        while True:
            self._changed.clear()
            now = self._loop.time()
            renewed = [lease for lease in self._held if lease.is_renewed]
            due = [lease for lease in renewed if lease.renew_at <= now]
            if due:
                self._wakes_at = 0.0  # it looks again by itself
                await self._extend_all(due)
                continue
            self._wakes_at = min((lease.renew_at for lease in renewed), default=now + 3600)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wakes_at - now):
                    await self._changed.wait()

    async def _extend_all(self, leases: Iterable[Lease]) -> None:
        together: dict[tuple[Settler, int], list[Lease]] = defaultdict(list)
        for lease in leases:
            together[lease.settler, lease.terms.lease_ms].append(lease)
        await asyncio.gather(*(self._extend(settler, lease_ms, of) for (settler, lease_ms), of in together.items()))

    async def _extend(self, settler: Settler, lease_ms: int, leases: list[Lease]) -> None:
        offsets = [each for lease in leases for each in lease.renewed_offsets()]
        asked_at = self._loop.time()
        try:
            unsettled = await settler.extend(lease_ms, offsets)
        except LiteMQError as error:
            _LOG.info("leases of %s at %s are renewed later: %s", settler.topic, settler.broker, error)
            for lease in leases:
                lease.renew_at = asked_at + lease_ms / 10_000
            return
        for lease in leases:
            lease.extended(asked_at)
            if unsettled:
                lease.lose(dict(unsettled))

    # Ending -------------------------------------------------------------------------------------------------------------------

    def release(self, owner: object, *, only_ahead: bool = False) -> None:
        """Give back what somebody has left, so that others need not wait for the leases' ends."""
        for lease in [lease for lease in self._held if lease.owner is owner]:
            lease.give_back(lease.ahead if only_ahead else lease.open)

    async def flush(self) -> None:
        """Wait until everything that was settled is answered."""
        await asyncio.gather(*(settler.flush() for settler in list(self._settlers.values())))

    async def close(self) -> None:
        """Give everything back."""
        for lease in self._held:
            lease.give_back(lease.open)
        self._held.clear()
        tasks = [*self._asking, *([self._renewing] if self._renewing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.flush()
        finally:
            await asyncio.gather(*(settler.close() for settler in self._settlers.values()))


def _give_back(asked: asyncio.Task[Lease | None]) -> None:
    """Nobody waits for these any more."""
    if not asked.cancelled() and asked.exception() is None:
        lease = asked.result()
        if lease is not None:
            lease.give_back(lease.open, untaken=True)
