"""The engine of a cluster: it finds the next master of a group whose master cannot be reached."""

from litemq.client.cluster.engine import ClusterEngine
from litemq.client.config import ClientConfig
from litemq.net.server import FrameServer
from litemq.proto.wire_pb2 import BrokerFacts
from support.name_processes import serving
from support.names import Names, broker_facts
from support.on_loop import on_loop
from support.processes import free_port
from support.waiting import HANG_S, eventually

_HOUR_MS = 3_600_000


def _master(epoch: int, port: int) -> BrokerFacts:
    facts = broker_facts("orders", port=port, orders=1)
    facts.epoch = epoch
    return facts


@on_loop
async def test_the_next_master_is_found_although_no_attempt_to_connect_fails_meanwhile() -> None:
    names = Names()
    names.register(_master(1, free_port()))  # it was killed
    server = FrameServer(lambda _session, _frames: None, software="test")
    _, port = await server.start("127.0.0.1", 0)
    config = ClientConfig(retry_backoff_ms=_HOUR_MS, max_retry_backoff_ms=_HOUR_MS)
    async with serving(names) as nameserver:
        engine = ClusterEngine([("127.0.0.1", nameserver)], config)
        await engine.open()
        connection = engine._connections.to("orders")
        connection.start_connecting()
        await eventually(lambda: connection.failure is not None)
        await eventually(lambda: not engine._addresses._is_due.is_set())  # it has asked for the address in vain
        names.register(_master(2, port))
        assert (await connection.wait_open(HANG_S)).is_open
        await engine.close(1.0)
    await server.close()
