"""A ``GroupStore`` in etcd, shared by any number of NameServers.

    PREFIX/groups/NAME/fact    a StoredGroup; the revision of the fact is that of the key
    PREFIX/groups/NAME/lease   a StoredLease, attached to a lease of etcd: deleted when that ends

Each change is one transaction that compares the revision of the fact. etcd measures leases with its
leader's clock, in whole seconds, and starts them again when its leader changes: a lease may last
longer than granted, never shorter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final

from litemq.errors import (
    ChangeOutcomeUnknownError,
    ClusterStoreError,
    ClusterStoreUnavailableError,
    InvalidArgumentError,
    MasterLeaseLostError,
)
from litemq.nameserver.cluster_store.etcd_client import EtcdClient, end_of_prefix
from litemq.nameserver.cluster_store.groups import (
    GroupFact,
    GroupGone,
    GroupState,
    check_change,
    check_creation,
    check_election,
    check_lease_ms,
    check_recovery,
    decode_fact,
    encode_fact,
    refusal,
    same_fact,
    with_revision,
)
from litemq.proto.cluster_pb2 import StoredLease
from litemq.proto.etcd_pb2 import (
    Compare,
    DeleteRangeRequest,
    Event,
    KeyValue,
    PutRequest,
    RangeRequest,
    RequestOp,
    ResponseHeader,
    TxnRequest,
)
from litemq.types import check_name

__all__ = ["EtcdGroupStore"]

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE_S: Final = 0.1  # after a watch has broken
_MAX_PAUSE_S: Final = 1.0


class EtcdGroupStore:
    """The groups below ``prefix`` in the etcd cluster at ``endpoints``, for one event loop."""

    def __init__(self, endpoints: Sequence[str], prefix: str = "/litemq", *, timeout_s: float = 5.0) -> None:
        self._prefix = prefix
        self._client = EtcdClient(endpoints, timeout_s=timeout_s, attempt_s=timeout_s * 0.4)
        self._keys = _Keys(f"{prefix}/groups/".encode())
        self._leases: dict[str, tuple[bytes, int]] = {}  # by group: the value and the id of a lease renewed here
        self._closed = asyncio.Event()

    # Reads ----------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        return f"etcd at {', '.join(self._client.endpoints)}"

    @property
    def identity(self) -> bytes:
        cluster = self._client.cluster_id
        return cluster.to_bytes(8, "big") + self._prefix.encode() if cluster else b""

    async def groups(self) -> list[GroupState]:
        view, _ = await self._read_all()
        return [state for name in sorted(view.names) if (state := view.state(name)) is not None]

    async def read(self, name: str) -> GroupState | None:
        check_name(name, "group")
        return (await self._view(name)).checked_state(name)

    async def watch(self) -> AsyncGenerator[GroupState | GroupGone, None]:
        seen: dict[str, GroupState] = {}
        pause_s, trouble = _FIRST_PAUSE_S, ""
        while not self._closed.is_set():
            try:
                # Also after each break: etcd may come back without its data, or with a backup.
                view, header = await self._read_all()
                for change in view.news(sorted({*view.names, *seen}), seen):
                    yield change
                async with aclosing(self._client.watch(self._keys.prefix, header)) as changes:
                    async for events in changes:
                        if trouble:
                            _LOG.warning("watching the groups again")
                        pause_s, trouble = _FIRST_PAUSE_S, ""
                        for change in view.news(view.apply(events), seen):
                            yield change
            except ClusterStoreError as error:
                if self._closed.is_set():
                    return
                if type(error).__name__ != trouble:  # once, not at each attempt
                    trouble = type(error).__name__
                    _LOG.warning("cannot watch the groups, will retry: %s", error)
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    async def _pause(self, pause_s: float) -> None:
        """Wait, but no longer than the store is open."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), pause_s)

    async def _read_all(self) -> tuple[_View, ResponseHeader]:
        response = await self._client.range(self._keys.prefix, end_of_prefix(self._keys.prefix))
        return _View(self._keys, response.kvs), response.header

    async def _view(self, name: str) -> _View:
        response = await self._client.range(self._keys.of(name), end_of_prefix(self._keys.of(name)))
        return _View(self._keys, response.kvs)

    # Changes --------------------------------------------------------------------------------------

    async def create(self, fact: GroupFact) -> GroupFact:
        check_creation(fact)
        return await self._commit(None, fact, [], [])

    async def recover(self, fact: GroupFact, lease_ms: int, outdated: GroupFact | None = None) -> GroupFact:
        check_lease_ms(lease_ms)
        check_recovery(outdated, fact)
        return await self._commit_with_lease(outdated, fact, lease_ms, [])

    async def change(self, before: GroupFact, after: GroupFact) -> GroupFact:
        check_change(before, after)
        return await self._commit(before, after, [], [])

    async def elect(self, before: GroupFact, after: GroupFact, lease_ms: int) -> GroupFact:
        check_election(before, after)
        check_lease_ms(lease_ms)
        no_lease = _compare(Compare.CREATE, self._keys.lease(before.name), create_revision=0)
        return await self._commit_with_lease(before, after, lease_ms, [no_lease])

    async def hand_over(self, before: GroupFact, after: GroupFact, lease_ms: int) -> GroupFact:
        check_election(before, after)
        check_lease_ms(lease_ms)
        return await self._commit_with_lease(before, after, lease_ms, [])

    async def _commit_with_lease(
        self, before: GroupFact | None, after: GroupFact, lease_ms: int, compares: list[Compare]
    ) -> GroupFact:
        lease = await self._client.grant(-(-lease_ms // 1_000))
        put = PutRequest(key=self._keys.lease(after.name), value=_lease_value(after.epoch, after.holder), lease=lease)
        try:
            return await self._commit(before, after, compares, [RequestOp(request_put=put)])
        except ChangeOutcomeUnknownError:
            raise  # the new master may have this lease
        except ClusterStoreError:
            with contextlib.suppress(ClusterStoreError):
                await self._client.revoke(lease)
            raise

    async def _commit(
        self, before: GroupFact | None, after: GroupFact, compares: list[Compare], puts: list[RequestOp]
    ) -> GroupFact:
        """Replace ``before`` by ``after`` if it is current and ``compares`` hold."""
        name, key = after.name, self._keys.fact(after.name)
        if before is None:
            is_current = _compare(Compare.CREATE, key, create_revision=0)
        else:
            is_current = _compare(Compare.MOD, key, mod_revision=before.revision)
        put = RequestOp(request_put=PutRequest(key=key, value=encode_fact(after)))
        group = RangeRequest(key=self._keys.of(name), range_end=end_of_prefix(self._keys.of(name)))
        request = TxnRequest(
            compare=[is_current, *compares], success=[put, *puts], failure=[RequestOp(request_range=group)]
        )
        try:
            response, is_repeated = await self._client.txn(request)
        except ClusterStoreUnavailableError as error:
            raise ChangeOutcomeUnknownError(f"group {name}: {error}") from error
        if response.succeeded:
            return with_revision(after, response.header.revision)
        current = _View(self._keys, response.responses[0].response_range.kvs).checked_state(name)
        if is_repeated and current is not None and same_fact(current.fact, after):
            return current.fact  # an earlier attempt was made, although its answer was lost
        raise refusal(name, before, current)

    # Leases ---------------------------------------------------------------------------------------

    async def renew(self, name: str, epoch: int, holder: bytes) -> int:
        check_name(name, "group")
        value = _lease_value(epoch, holder)
        known, lease = self._leases.get(name, (b"", 0))
        if known != value:
            lease = await self._lease_of(name, value) if holder else 0
        ttl_s = await self._client.keep_alive(lease) if lease else 0
        # Only now is it certain that the lease is still the group's: a switch may have replaced it.
        if ttl_s <= 0 or await self._lease_of(name, value) != lease:
            self._leases.pop(name, None)
            raise MasterLeaseLostError(
                f"group {name}: replica {holder.hex()} has no lease in epoch {epoch}: it must stop as the master"
            )
        self._leases[name] = value, lease
        return ttl_s * 1_000

    async def release(self, name: str, epoch: int, holder: bytes) -> None:
        check_name(name, "group")
        if not holder:
            return
        key = self._keys.lease(name)
        delete = RequestOp(request_delete_range=DeleteRangeRequest(key=key))
        compare = _compare(Compare.VALUE, key, value=_lease_value(epoch, holder))
        try:
            await self._client.txn(TxnRequest(compare=[compare], success=[delete]))
        except ClusterStoreUnavailableError as error:
            raise ChangeOutcomeUnknownError(f"group {name}: {error}") from error

    async def _lease_of(self, name: str, value: bytes) -> int:
        """Return the id of the group's lease; 0: there is none with this ``value``, or no fact."""
        response = await self._client.range(self._keys.of(name), end_of_prefix(self._keys.of(name)))
        found = {kv.key: kv for kv in response.kvs}
        lease = found.get(self._keys.lease(name))
        has_fact = self._keys.fact(name) in found  # not if an operator has deleted it
        return lease.lease if has_fact and lease is not None and lease.value == value else 0

    async def close(self) -> None:
        self._closed.set()
        await self._client.close()


class _Keys:
    """The keys of groups: PREFIX NAME/fact and PREFIX NAME/lease."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix

    def of(self, name: str) -> bytes:
        return self.prefix + name.encode() + b"/"

    def fact(self, name: str) -> bytes:
        return self.of(name) + b"fact"

    def lease(self, name: str) -> bytes:
        return self.of(name) + b"lease"

    def parse(self, key: bytes) -> tuple[str, bytes]:
        """Return the group and the kind of a key; an unknown key has the kind ``b""``."""
        name, _, kind = key[len(self.prefix) :].partition(b"/")
        try:
            return check_name(name.decode(), "group"), kind if kind in (b"fact", b"lease") else b""
        except (UnicodeError, InvalidArgumentError):
            return "", b""


class _View:
    """The groups as of some revision: the keys of facts and of leases."""

    def __init__(self, keys: _Keys, kvs: Sequence[KeyValue]) -> None:
        self._keys = keys
        self._facts: dict[str, GroupFact | InvalidArgumentError] = {}
        self._leased: set[str] = set()
        for kv in kvs:
            self._put(kv)

    @property
    def names(self) -> set[str]:
        return set(self._facts)

    def state(self, name: str) -> GroupState | None:
        """Return the state of a group; ``None`` if it has no fact, or one that cannot be read."""
        fact = self._facts.get(name)
        return GroupState(fact, name in self._leased) if isinstance(fact, GroupFact) else None

    def checked_state(self, name: str) -> GroupState | None:
        """Return the state of a group, or raise if its fact cannot be read."""
        fact = self._facts.get(name)
        if isinstance(fact, InvalidArgumentError):
            raise ClusterStoreError(f"etcd has no valid fact: {fact}")
        return self.state(name)

    def apply(self, events: Sequence[Event]) -> list[str]:
        """Apply the changes of one revision; return the groups that they concern."""
        names: dict[str, None] = {}
        for event in events:
            names[self._remove(event.kv) if event.type == Event.DELETE else self._put(event.kv)] = None
        return list(names)

    def news(self, names: Iterable[str], seen: dict[str, GroupState]) -> list[GroupState | GroupGone]:
        """Return how the groups ``names`` differ from ``seen``; note their states there."""
        found: list[GroupState | GroupGone] = []
        for name in names:
            state = self.state(name)
            if state is not None and state != seen.get(name):
                seen[name] = state
                found.append(state)
            elif name in seen and name not in self._facts:
                del seen[name]
                found.append(GroupGone(name))
        return found

    def _put(self, kv: KeyValue) -> str:
        name, kind = self._keys.parse(kv.key)
        if kind == b"lease":
            self._leased.add(name)
        elif kind == b"fact":
            try:
                self._facts[name] = decode_fact(name, kv.value, kv.mod_revision)
            except InvalidArgumentError as error:
                _LOG.error("etcd has no valid fact: %s", error)
                self._facts[name] = error
        return name

    def _remove(self, kv: KeyValue) -> str:
        name, kind = self._keys.parse(kv.key)
        if kind == b"lease":
            self._leased.discard(name)
        elif kind == b"fact":
            self._facts.pop(name, None)
        return name


def _compare(target: Compare.CompareTarget, key: bytes, **value: int | bytes) -> Compare:
    return Compare(result=Compare.EQUAL, target=target, key=key, **value)  # type: ignore[arg-type]


def _lease_value(epoch: int, holder: bytes) -> bytes:
    return StoredLease(epoch=epoch, holder=holder).SerializeToString(deterministic=True)
