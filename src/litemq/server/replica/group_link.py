"""The link of a replica to its NameServers: reports, and what they know of the group.

Each NameServer has its own connection. Of what they say, the facts with the highest epoch and
revision count: a NameServer may be behind the others. NameServers that keep their facts in
different stores would elect a master each, so a replica takes the facts of one store only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from google.protobuf.message import DecodeError

from litemq.errors import (
    ChangeOutcomeUnknownError,
    ClusterStoreUnavailableError,
    ConfigurationError,
    ConnectionLostError,
    LiteMQError,
    NetworkError,
)
from litemq.nameserver.latest_fact import LatestFact
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import (
    ChangeInSyncRequest,
    HandOverRequest,
    Opcode,
    RenewMasterAnswer,
    RenewMasterRequest,
    ReplicaGroup,
    ReplicaReport,
)

__all__ = ["GroupLink"]

_WAIT_MS: Final = 500  # of a report that changes nothing; the next one is the next heartbeat
_TIMEOUT_S: Final = 2.0
_SOON_S: Final = 0.3
# This NameServer does not know; another one may.
_NO_ANSWER: Final = (NetworkError, ClusterStoreUnavailableError, ChangeOutcomeUnknownError)
_FIRST_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 1.0
_LOG = logging.getLogger(__name__)


class GroupLink:
    """Reports to all NameServers. ``report`` returns the current report of this replica."""

    def __init__(self, nameservers: Iterable[tuple[str, int]], report: Callable[[], ReplicaReport]) -> None:
        self._lines = [_Line(host, port, report, self._on_view) for host, port in nameservers]
        self._report = report
        self._changed = asyncio.Event()
        self._conflict: ConfigurationError | None = None
        self._has_conflict = asyncio.Event()
        self.has_role = False  # set by the owner: a wrong NameServer does not stop a replica that serves
        self.view: ReplicaGroup | None = None
        self.latest = LatestFact()  # proves to the NameServers that the cluster store was restored from an old copy

    async def run(self) -> None:
        """Report until cancelled.

        Raises:
            ConfigurationError: The NameServers keep their facts in different stores.
        """
        lines = [asyncio.create_task(line.run()) for line in self._lines]
        conflict = asyncio.create_task(self._has_conflict.wait())
        try:
            ended, _ = await asyncio.wait([*lines, conflict], return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
            if self._conflict is not None:
                raise self._conflict
        finally:
            for task in (*lines, conflict):
                task.cancel()
            await asyncio.wait([*lines, conflict])

    def _on_view(self, line: _Line, view: ReplicaGroup) -> None:
        line.store = view.store or line.store  # that of a NameServer that was started again may differ
        stores = {each.store for each in self._lines if each is not line and each.store and not each.refusal}
        if view.store and stores and view.store not in stores:
            line.refuse(
                "it keeps the facts of groups in another store than the other NameServers: run several NameServers "
                "with store_kind=etcd and the same etcd"
            )
            if not self.has_role:
                self._conflict = ConfigurationError(f"the NameServer at {line.address} cannot be used: {line.refusal}")
                self._has_conflict.set()
            return
        line.refusal = ""
        if self.view is None or (view.epoch, view.revision) >= (self.view.epoch, self.view.revision):
            self.view = view
            self._note(view)
            self._changed.set()

    def _note(self, view: ReplicaGroup) -> ReplicaGroup:
        self.latest = self.latest.joined(view.epoch, view.revision)
        return view

    async def wait_changed(self) -> ReplicaGroup:
        """Wait for the next answer of a NameServer that is not outdated."""
        await self._changed.wait()
        self._changed.clear()
        assert self.view is not None  # noqa: S101  it was set before the event
        return self.view

    @property
    def names(self) -> dict[bytes, str]:
        """The ``broker_id`` of each replica that a NameServer knows, by store id."""
        return {each.store_id: each.broker_id for each in (self.view.replicas if self.view is not None else ())}

    async def renew(self, request: RenewMasterRequest) -> int:
        """Renew the master's lease at any NameServer; return its length in ms."""
        return RenewMasterAnswer.FromString(await self._ask(Opcode.RENEW_MASTER, request.SerializeToString())).lease_ms

    async def change(self, request: ChangeInSyncRequest) -> ReplicaGroup:
        """Change the in-sync set at any NameServer."""
        return self._note(ReplicaGroup.FromString(await self._ask(Opcode.CHANGE_IN_SYNC, request.SerializeToString())))

    async def hand_over(self, request: HandOverRequest) -> ReplicaGroup:
        """Make another replica the master, at any NameServer."""
        return self._note(ReplicaGroup.FromString(await self._ask(Opcode.HAND_OVER, request.SerializeToString())))

    async def report_stop(self) -> None:
        """Send a last report to the connected NameServers, so that none elects this replica."""
        header = self._report().SerializeToString()
        reports = (line.ask(Opcode.REPORT_REPLICA, header) for line in self._lines)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOON_S):
                await asyncio.gather(*reports, return_exceptions=True)

    async def _ask(self, opcode: int, header: bytes) -> bytes:
        """Ask one NameServer after another until one answers, with a result or a definite error.

        If one does not answer soon, or does not reach the cluster store, the next one is asked,
        too: a lease of two seconds does not outlast the timeout of a NameServer that hangs. So a
        request may be made twice. The NameServer that has answered is asked first the next time.
        """
        unasked = [line for line in self._lines if line.peer is not None and not line.refusal]
        asked: dict[asyncio.Task[bytes], _Line] = {}
        failure: LiteMQError = ConnectionLostError("no NameServer is reachable")
        try:
            while unasked or asked:
                if unasked:
                    line = unasked.pop(0)
                    asked[asyncio.create_task(line.ask(opcode, header))] = line
                done, _ = await asyncio.wait(
                    asked, timeout=_SOON_S if unasked else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    line = asked.pop(task)
                    try:
                        answer = task.result()
                    except _NO_ANSWER as error:
                        if isinstance(failure, NetworkError):  # what a NameServer says tells more
                            failure = error
                    else:
                        self._lines.sort(key=lambda each: each is not line)
                        return answer
        finally:
            for task in asked:
                task.cancel()
        raise failure


class _Line:
    """The connection to one NameServer."""

    def __init__(
        self, host: str, port: int, report: Callable[[], ReplicaReport], on_view: Callable[[_Line, ReplicaGroup], None]
    ) -> None:
        self._host = host
        self._port = port
        self._report = report
        self._on_view = on_view
        self._logged = ""
        self.peer: Peer | None = None
        self.store = b""  # the cluster store that its facts are from
        self.refusal = ""  # why nothing that it says counts

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def refuse(self, reason: str) -> None:
        """Note that nothing counts that this NameServer says."""
        if reason != self.refusal:
            self.refusal = reason
            _LOG.error("the NameServer at %s is not used: %s", self.address, reason)

    async def ask(self, opcode: int, header: bytes) -> bytes:
        """Send a request to this NameServer, if it is connected."""
        if self.peer is None:
            raise ConnectionLostError(f"no connection to the NameServer at {self.address}")
        return (await self.peer.request(opcode, header, timeout=_TIMEOUT_S)).header

    async def run(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            peer: Peer | None = None
            try:
                report = self._report()
                peer = await Peer.connect(self._host, self._port, client_id=report.broker_id, timeout=_TIMEOUT_S)
                self.peer = peer
                version = 0
                while True:
                    report = self._report()
                    report.known_version, report.wait_ms = version, _WAIT_MS
                    answer = await peer.request(
                        Opcode.REPORT_REPLICA, report.SerializeToString(), timeout=_WAIT_MS / 1000 + _TIMEOUT_S
                    )
                    view = ReplicaGroup.FromString(answer.header)
                    version = view.version
                    pause, self._logged = _FIRST_PAUSE_S, ""
                    self._on_view(self, view)
            except (LiteMQError, DecodeError) as error:  # the replica goes on with what it knows
                self._log_failure(error)
            finally:
                self.peer = None
                if peer is not None:
                    peer.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_S)

    def _log_failure(self, error: Exception) -> None:
        """Log a failure once, not at every try."""
        failure = f"{type(error).__name__}: {error}"
        if failure != self._logged:
            self._logged = failure
            _LOG.warning("no report to the NameServer at %s, retrying: %s", self.address, error)
