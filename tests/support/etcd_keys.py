"""Keys in etcd, as an operator may change them, and groups that are stored there."""

from __future__ import annotations

import grpc

from litemq.nameserver.cluster_store.etcd_client import EtcdClient
from litemq.nameserver.cluster_store.etcd_groups import EtcdGroupStore
from litemq.nameserver.cluster_store.groups import GroupFact
from litemq.proto.etcd_pb2 import DeleteRangeRequest, LeaseKeepAliveRequest, PutRequest, RequestOp, TxnRequest
from support.etcd import EtcdCluster
from support.group_stores import A, elected, new_fact

__all__ = ["compact", "delete_key", "leased_group", "put_key"]


async def put_key(etcd: EtcdCluster, key: str, value: bytes) -> None:
    client = EtcdClient(etcd.endpoints)
    await client.txn(TxnRequest(success=[RequestOp(request_put=PutRequest(key=key.encode(), value=value))]))
    await client.close()


async def delete_key(etcd: EtcdCluster, key: str) -> None:
    client = EtcdClient(etcd.endpoints)
    delete = DeleteRangeRequest(key=key.encode())
    await client.txn(TxnRequest(success=[RequestOp(request_delete_range=delete)]))
    await client.close()


async def compact(etcd: EtcdCluster, revision: int) -> None:
    """Let etcd forget all revisions before ``revision``."""
    async with grpc.aio.insecure_channel(etcd.endpoints[0]) as channel:
        compact = channel.unary_unary("/etcdserverpb.KV/Compact", request_serializer=lambda each: each)
        # A CompactionRequest is encoded in the same way: an integer as its first field.
        await compact(LeaseKeepAliveRequest(ID=revision).SerializeToString())


async def leased_group(store: EtcdGroupStore, name: str = "orders") -> GroupFact:
    """Return the fact of a new group with the master A, whose lease does not end during a test."""
    created = await store.create(new_fact(name))
    return await store.elect(created, elected(created, A), 600_000)
