"""The contract suite: every test runs once for each engine, in a thread or on the same loop."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from litemq.client.sync.loop_thread import LoopThread
from support.engines import ENGINES, PROCESSES, Engine, EngineKind, new_topic
from support.waiting import HANG_S

TEST_S = 5 * HANG_S  # a step that hangs fails by itself before


class Unstarted:
    """A placeholder for the engine in a test's arguments until it runs."""

    def __init__(self, kind: EngineKind, *, auto_create_topics: bool) -> None:
        self._kind = kind
        self._auto_create_topics = auto_create_topics

    def start(self) -> AbstractAsyncContextManager[Engine]:
        return self._kind.start(self._auto_create_topics)


@pytest.fixture(params=ENGINES, ids=lambda kind: kind.name)
def engine(request: pytest.FixtureRequest) -> Unstarted:
    """Return an engine to start; the test gets the running ``Engine``.

    With the marker ``no_auto_create``, the engine creates no topics automatically.
    """
    return Unstarted(request.param, auto_create_topics=request.node.get_closest_marker("no_auto_create") is None)


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return new_topic()


@pytest.fixture(scope="session", autouse=True)
def _processes() -> Iterator[None]:
    yield
    PROCESSES.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    unstarted = arguments.get("engine")
    if not isinstance(unstarted, Unstarted):
        return None
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(_run(pyfuncitem.obj, unstarted, arguments))
    else:
        _run_beside(pyfuncitem.obj, unstarted, arguments)
    return True


async def _run(test: Callable[..., Awaitable[None]], unstarted: Unstarted, arguments: dict[str, Any]) -> None:
    """Run an asynchronous test with the engine on its loop."""
    async with unstarted.start() as engine, asyncio.timeout(TEST_S):
        await test(**arguments | {"engine": engine})


def _run_beside(test: Callable[..., None], unstarted: Unstarted, arguments: dict[str, Any]) -> None:
    """Run a synchronous test with the engine on another thread."""
    thread = LoopThread()
    thread.start()
    try:
        starting = unstarted.start()
        engine = thread.run(starting.__aenter__())
        try:
            beside = Engine(engine.url, lambda: thread.call(engine.drop_connections))
            test(**arguments | {"engine": beside})
        finally:
            thread.run(starting.__aexit__(None, None, None))
    finally:
        thread.stop()
