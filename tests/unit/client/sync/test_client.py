"""The synchronous client: as generated, over the same engine."""

import asyncio
import importlib.util
import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from litemq.client.async_client import AsyncClient
from litemq.client.cluster import ClusterEngine
from litemq.client.messages.message import Message
from litemq.client.sync.client import Client
from litemq.client.sync.messages import SyncMessage
from litemq.errors import AlreadySettledError, ClientClosedError, InvalidArgumentError, LiteMQError
from support.clusters import NAMES, LocalCluster, local_cluster
from support.waiting import HANG_S

ROOT = Path(__file__).parents[4]


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("async_to_sync", ROOT / "tools" / "async_to_sync.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_committed_files_are_what_the_generator_makes() -> None:
    for path, text in _generator().generate().items():
        assert path.read_text() == text


@pytest.mark.parametrize(("ours", "theirs"), [(Client, AsyncClient), (SyncMessage, Message)])
def test_both_have_the_same_methods_with_the_same_parameters(ours: type, theirs: type) -> None:
    names = [name for name in dir(theirs) if not name.startswith("_")]
    assert [name for name in dir(ours) if not name.startswith("_")] == names
    for name in names:
        method = getattr(theirs, name)
        if inspect.isfunction(method):
            assert list(inspect.signature(method).parameters) == list(inspect.signature(getattr(ours, name)).parameters)


@pytest.fixture
def mq() -> Iterator[Client]:
    """A client of a cluster that lives on the client's own loop."""
    client = Client("litemq://names", route_refresh_ms=50)
    clusters: list[LocalCluster] = []

    class Engine(ClusterEngine):
        async def open(self) -> None:
            self._context = local_cluster("a")
            cluster = await self._context.__aenter__()
            clusters.append(cluster)
            self._nameservers._connection._connect = self._connections._connect = cluster.connect
            await super().open()

        async def close(self, within: float) -> None:
            await super().close(within)
            await self._context.__aexit__(None, None, None)

    client._wrapped._make_engine = lambda _url, config: Engine([NAMES], config)
    with client:
        yield client


def test_send_and_receive(mq: Client) -> None:
    receipt = mq.send("orders", {"id": 1}, ordering_key="k")
    assert receipt.queue_offset == 0
    assert mq.send_nowait("orders", "two", ordering_key="k").result(HANG_S).queue_offset == 1
    assert [each.queue_offset for each in mq.send_batch("orders", [b"x", b"y"])]
    mq.flush()
    with mq.consumer("orders", group_id="g") as consumer:
        seen = []
        for message in consumer:
            with message.process():
                seen.append(message.value)
            with pytest.raises(AlreadySettledError):
                message.ack()
            if len(seen) == 4:
                break
    assert {"id": 1} in seen
    assert mq.receive("orders", group_id="g", wait=0.05) == []
    assert len(list(mq.reader("orders", follow=False))) == 4
    found = mq.admin.get("orders", receipt.message_id)
    assert found is not None
    assert found.value == {"id": 1}
    assert mq.admin.topics() == {"orders": 4}
    with pytest.raises(InvalidArgumentError, match="has no priorities"):
        mq.send("orders", b"x", priority=3)


def test_handlers_get_synchronous_messages(mq: Client) -> None:
    seen: list[bytes] = []

    @mq.subscriber("orders", group_id="g")
    def handle(message: SyncMessage) -> None:
        seen.append(message.body)
        message.ack()
        os.kill(os.getpid(), signal.SIGTERM)

    mq.send("orders", b"x")
    mq.run()
    assert seen == [b"x"]


def test_a_closed_client_says_so() -> None:
    client = Client("litemq://127.0.0.1:1", connect_timeout_ms=100, request_timeout_ms=200)
    with pytest.raises(ClientClosedError, match=r"with litemq\.Client"):
        client.send("orders", b"x")
    with pytest.raises(LiteMQError, match=r"127\.0\.0\.1:1"):
        client.open()
    client.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_is_noticed(mq: Client) -> None:
    mq.send("orders", b"x")
    child = os.fork()
    if child == 0:
        try:
            mq.send("orders", b"y")
        except ClientClosedError as error:
            os._exit(7 if "fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    mq.send("orders", b"z")


def test_importing_litemq_is_light() -> None:
    program = (
        "import sys, litemq; sys.exit(any("
        "name.startswith(('litemq.client', 'litemq.storage', 'numpy', 'google')) for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    program = (
        "import sys, litemq; litemq.Client; sys.exit(any("
        "name.startswith(('litemq.storage', 'litemq.broker')) for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_from_its_own_loop_it_would_wait_for_itself(mq: Client) -> None:
    async def inside() -> None:
        await asyncio.sleep(0)
        with pytest.raises(LiteMQError, match="AsyncClient"):
            mq.send("orders", b"x")

    mq._thread.run(inside())
