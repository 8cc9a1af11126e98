"""Foreground servers: signals, and the error of a failed task."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from litemq.cli.processes.serving import serve
from litemq.cli.rendering.logs import Level
from litemq.errors import StoreFailedError

pytestmark = pytest.mark.usefixtures("root_logger_as_it_was", "not_under_nohup")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_it_in_good_order(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    async def start(ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
        ready("127.0.0.1", 1234)
        os.kill(os.getpid(), number)
        await stop.wait()

    serve("broker-1", start, level=Level.INFO, shutdown_timeout_ms=60_000)
    said = capsys.readouterr().err
    assert "listening on 127.0.0.1:1234" in said
    assert f"{number.name}: shutting down" in said


def test_a_closed_terminal_may_say_so_twice() -> None:
    async def start(_ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            await stop.wait()
            await asyncio.sleep(0.01)

    serve("broker-1", start, level=Level.INFO, shutdown_timeout_ms=60_000)


def test_the_first_error_of_ours_is_raised() -> None:
    async def fail() -> None:
        raise StoreFailedError("the disk is gone")

    async def start(_ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            await stop.wait()

    with pytest.raises(StoreFailedError, match="the disk is gone"):
        serve("broker-1", start, level=Level.ERROR, shutdown_timeout_ms=60_000)
