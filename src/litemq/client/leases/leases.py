"""All leases of one client: requests them, renews those in use, and returns the rest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Engine, LeaseOptions
from litemq.client.leases.lease import Lease
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import SettlePolicy
from litemq.client.settling.settler import Settler
from litemq.errors import LiteMQError, ProtocolError
from litemq.format.messages import decode_messages

__all__ = ["Leases"]

_LOG = logging.getLogger(__name__)
_SWEEP: Final = 1.0  # seconds


class Leases:
    """Requests leases, renews those in use, and returns the rest when the client closes."""

    def __init__(self, engine: Engine, config: ClientConfig, serializers: Serializers) -> None:
        self._engine = engine
        self._config = config
        self._serializers = serializers
        self._loop = asyncio.get_running_loop()
        self._settlers: dict[tuple[str, str, str], Settler] = {}
        self._held: set[Lease] = set()
        self._requests: set[asyncio.Task[Lease | None]] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._wakes_at = 0.0  # when the next lease is renewed
        self._swept = self._loop.time()

    def settler(self, broker: str, topic: str, group: str) -> Settler:
        """Return the settler of ``group`` for ``topic`` at ``broker``."""
        settler = self._settlers.get((broker, topic, group))
        if settler is None:
            settler = self._settlers[broker, topic, group] = Settler(self._engine, broker, topic, group, self._config)
        return settler

    # Requesting -----------------------------------------------------------------------------------

    async def ask(
        self,
        broker: str,
        topic: str,
        group: str,
        options: LeaseOptions,
        settle_policy: SettlePolicy,
        owner: object,
        *,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
        ahead: bool = False,
    ) -> Lease | None:
        """Request messages under a lease; return ``None`` if there are none.

        ``ahead``: they are prefetched.

        If the caller is cancelled, messages that are granted afterwards return to the broker.
        """

        async def request() -> Lease | None:
            answer = await self._engine.lease(
                broker, topic, group, options, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms
            )
            fields = decode_messages(answer.records)
            if len(fields) != len(answer.counts):
                raise ProtocolError(
                    f"broker {broker!r} leased {len(fields)} messages, but sent {len(answer.counts)} delivery counts"
                )
            if not fields:
                return None
            lease = Lease(
                self.settler(broker, topic, group),
                answer.token,
                options,
                settle_policy,
                owner,
                self._serializers,
                self._config.max_body_bytes,
                self._on_use,
            )
            lease.add_messages(fields, answer.counts, self._loop.time(), ahead=ahead)
            self._hold(lease)
            return lease

        task = self._loop.create_task(request(), name=f"litemq leases of {topic}")
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_give_back)
            raise

    def _hold(self, lease: Lease) -> None:
        self._held.add(lease)
        if lease.ahead:
            self._on_use(lease.renew_at)
        if self._renewing is None:
            self._renewing = self._loop.create_task(self._renew(), name="litemq renews leases")
        now = self._loop.time()
        if now > self._swept + _SWEEP:
            self._swept = now
            self._held = {each for each in self._held if each.open and (each.is_renewed or each.until > now)}

    def _on_use(self, renew_at: float) -> None:
        """A message is to be renewed at ``renew_at``: wake the renewal task if it would be late."""
        if renew_at < self._wakes_at:
            self._changed.set()

    # Renewing -------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        """Renew each lease in use when half of its time has passed."""
        while True:
            self._changed.clear()
            now = self._loop.time()
            renewed = [lease for lease in self._held if lease.is_renewed]
            due = [lease for lease in renewed if lease.renew_at <= now]
            if due:
                self._wakes_at = 0.0  # it checks again afterwards
                await self._extend_all(due)
                continue
            self._wakes_at = min((lease.renew_at for lease in renewed), default=now + 3600)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wakes_at - now):
                    await self._changed.wait()

    async def _extend_all(self, leases: Iterable[Lease]) -> None:
        groups: dict[tuple[Settler, int], list[Lease]] = defaultdict(list)
        for lease in leases:
            groups[lease.settler, lease.options.lease_ms].append(lease)
        await asyncio.gather(
            *(self._extend(settler, lease_ms, leases) for (settler, lease_ms), leases in groups.items())
        )

    async def _extend(self, settler: Settler, lease_ms: int, leases: list[Lease]) -> None:
        offsets = [each for lease in leases for each in lease.renewed_offsets()]
        requested_at = self._loop.time()
        try:
            unsettled = await settler.extend(lease_ms, offsets)
        except LiteMQError as error:
            _LOG.info("renewing leases of %s at %s failed, retrying: %s", settler.topic, settler.broker, error)
            for lease in leases:
                lease.renew_at = requested_at + lease_ms / 10_000
            return
        for lease in leases:
            lease.extended(requested_at)
            if unsettled:
                lease.lose(dict(unsettled))

    # Ending ---------------------------------------------------------------------------------------

    def release(self, owner: object, *, only_ahead: bool = False) -> None:
        """Return the messages of ``owner`` at once, instead of letting the leases expire."""
        for lease in [lease for lease in self._held if lease.owner is owner]:
            lease.give_back(lease.ahead if only_ahead else lease.open)

    async def flush(self) -> None:
        """Wait until the brokers have answered all settlements."""
        await asyncio.gather(*(settler.flush() for settler in list(self._settlers.values())))

    async def close(self) -> None:
        """Return all messages, and stop."""
        for lease in self._held:
            lease.give_back(lease.open)
        self._held.clear()
        tasks = [*self._requests, *([self._renewing] if self._renewing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.flush()
        finally:
            await asyncio.gather(*(settler.close() for settler in self._settlers.values()))


def _give_back(request: asyncio.Task[Lease | None]) -> None:
    """Return the messages of an answer that has no caller any more."""
    if not request.cancelled() and request.exception() is None:
        lease = request.result()
        if lease is not None:
            lease.give_back(lease.open, untaken=True)
