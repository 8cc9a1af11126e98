"""How the contract suite runs: every test of an engine once for each engine, and asynchronous ones on a loop of their own."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from support.engines import ENGINES, PROCESSES, Engine, EngineKind, new_topic

TIMEOUT_SECONDS = 60


class Unstarted:
    """Stands for the engine in a test's arguments until it runs."""

    def __init__(self, kind: EngineKind, *, auto_create_topics: bool) -> None:
        self.kind = kind
        self.auto_create_topics = auto_create_topics


@pytest.fixture(params=ENGINES, ids=lambda kind: kind.name)
def engine(request: pytest.FixtureRequest) -> Unstarted:
    """Becomes a running ``Engine`` when the test begins; with the marker ``no_auto_create``, one that creates no topics by itself."""
    return Unstarted(request.param, auto_create_topics=request.node.get_closest_marker("no_auto_create") is None)


@pytest.fixture
def topic() -> str:
    """A topic's name that no other test has."""
    return new_topic()


@pytest.fixture(scope="session", autouse=True)
def _processes() -> Iterator[None]:
    yield
    PROCESSES.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            unstarted = arguments["engine"]
            running: Engine
            async with unstarted.kind.start(unstarted.auto_create_topics) as running:
                await test(**arguments | {"engine": running})

    asyncio.run(run())
    return True
