"""Every exit code of the reference, from the command as users run it."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from litemq.cli.rendering.exit_codes import (
    EXIT_CODES,
    EXIT_FAILED,
    EXIT_IN_USE,
    EXIT_INTERRUPTED,
    EXIT_LATER,
    EXIT_NOT_FOUND,
    EXIT_PARTIAL,
    EXIT_UNKNOWN,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, Session
from litemq.proto.wire_pb2 import BrokerFacts, BrokerRoute, BrokersAnswer, BrokerState, Opcode, RouteAnswer
from support.commands import free_ports, litemq, running, up
from support.waiting import HANG_S


class Cluster:
    """A cluster with one broker, and commands that use it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)

    def code(self, *arguments: str, says: str = "", **environment: str) -> int:
        """Run a command; check that its error says ``says``, and return its exit code."""
        done = litemq(*arguments, cwd=self.folder, check=False, environment={**self.environment, **environment})
        assert says in done.stderr, done
        return done.returncode


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    # The first message of a client uses up its quota for minutes.
    with up(folder, LITEMQ_BROKER_QUOTA_BYTES_PER_S="1") as (_, environment):
        started = Cluster(folder, environment)
        assert started.code("topic", "create", "orders") == 0
        yield started


class SilentBroker:
    """A NameServer and broker that never answers a send."""

    def __init__(self) -> None:
        self.url = ""
        self._port = 0
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(HANG_S)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        self._loop.close()

    async def _serve(self) -> None:
        server = FrameServer(self._handle, software="silent")
        host, self._port = await server.start("127.0.0.1", 0)
        self.url = f"litemq://{host}:{self._port}"
        self._started.set()
        await self._stop.wait()
        await server.close()

    def _handle(self, session: Session, frames: list[Frame]) -> None:
        where: dict[str, Any] = {"name": "a", "host": "127.0.0.1", "port": self._port, "default_durability": 2}
        answers: dict[int, RouteAnswer | BrokersAnswer] = {
            Opcode.FETCH_ROUTE: RouteAnswer(brokers=[BrokerRoute(**where, queues=1)]),
            Opcode.LIST_BROKERS: BrokersAnswer(brokers=[BrokerState(facts=BrokerFacts(**where), alive=True)]),
        }
        for frame in frames:
            if frame.opcode in answers:
                session.answer(frame, answers[frame.opcode].SerializeToString())


def _succeeds(cluster: Cluster) -> int:
    return cluster.code("topic", "list")


def _needs_yes(cluster: Cluster) -> int:
    return cluster.code("topic", "delete", "orders")


def _wrong_usage(cluster: Cluster) -> int:
    return cluster.code("topic", "list", "--nonsense", says="No such option: --nonsense")


def _not_found(cluster: Cluster) -> int:
    for arguments in (
        ("topic", "describe", "nosuch"),
        ("topic", "delete", "nosuch"),
        ("group", "describe", "nosuch"),
        ("group", "reset", "nosuch", "--topic", "orders", "--to", "earliest", "--yes"),
        ("dlq", "list", "nosuch"),
        ("dlq", "redrive", "nosuch", "--yes"),
        ("job", "show", "nosuch"),
        ("message", "get", "orders", "nosuch"),
        ("timer", "show", "orders", "nosuch"),
        ("tx", "show", "tx:g:nosuch@broker-1"),
    ):
        assert cluster.code(*arguments) == EXIT_NOT_FOUND, arguments
    return EXIT_NOT_FOUND


def _unreachable(cluster: Cluster) -> int:
    url = f"litemq://127.0.0.1:{free_ports(1)[0]}"
    return cluster.code("topic", "list", "--url", url, says="no NameServer is listening")


def _in_use(cluster: Cluster) -> int:
    port, path = cluster.environment["LITEMQ_UP_PORT"], str(cluster.folder / "another")
    return cluster.code(
        *("broker", "--port", port, "--data-path", path),
        says=f"cannot listen on 127.0.0.1:{port}: another program uses the port. Stop it, or choose another port with",
    )


def _outcome_unknown(cluster: Cluster) -> int:
    with SilentBroker() as broker:
        return cluster.code(
            *("message", "send", "orders", "x", "--url", broker.url),
            says="SendOutcomeUnknownError (51)",
            LITEMQ_CLIENT_REQUEST_TIMEOUT="500ms",
            LITEMQ_CLIENT_DELIVERY_TIMEOUT="1s",
        )


def _retry_later(cluster: Cluster) -> int:
    client = {"LITEMQ_CLIENT_ID": "greedy", "LITEMQ_CLIENT_DELIVERY_TIMEOUT": "1s"}
    client["LITEMQ_CLIENT_REQUEST_TIMEOUT"] = "1s"
    codes = [cluster.code("message", "send", "orders", "x" * 1000, **client) for _ in range(2)]
    return codes[1]


def _incomplete(cluster: Cluster) -> int:
    url = f"{cluster.environment['LITEMQ_URL']},127.0.0.1:{free_ports(1)[0]}"
    return cluster.code("cluster", "status", "--url", url, says="incomplete NameServer 127.0.0.1:")


def _interrupted(cluster: Cluster) -> int:
    fifo = cluster.folder / "body"
    os.mkfifo(fifo)
    with (
        running("message", "send", "orders", "--file", str(fifo), cwd=cluster.folder) as command,
        fifo.open("wb"),  # blocks until the command reads the body
    ):
        return command.stop(signal.SIGINT)


CODES: dict[int, Callable[[Cluster], int]] = {
    0: _succeeds,
    EXIT_FAILED: _needs_yes,
    EXIT_USAGE: _wrong_usage,
    EXIT_NOT_FOUND: _not_found,
    EXIT_UNREACHABLE: _unreachable,
    EXIT_IN_USE: _in_use,
    EXIT_UNKNOWN: _outcome_unknown,
    EXIT_LATER: _retry_later,
    EXIT_PARTIAL: _incomplete,
    EXIT_INTERRUPTED: _interrupted,
}


@pytest.mark.parametrize("code", EXIT_CODES)
def test_the_command_ends_with_each_code_of_the_reference(code: int, cluster: Cluster) -> None:
    assert CODES[code](cluster) == code
