"""A cluster for chaos tests: a NameServer and two brokers as processes that are killed in turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.processes import ServerProcess

BETWEEN_KILLS: Final = 3.0


@contextlib.contextmanager
def cluster(
    directory: Path, a: Path | None = None, *, a_descriptors: int = 0
) -> Iterator[tuple[ServerProcess, dict[str, ServerProcess]]]:
    """Run a NameServer with default settings and two brokers.

    Broker ``a`` may have its data in another folder, and a limit of descriptors.
    """
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(ServerProcess("nameserver", directory / "names.log", data_path=directory / "names"))
        brokers = {
            name: stack.enter_context(
                ServerProcess(
                    "broker",
                    directory / f"{name}.log",
                    broker_id=name,
                    broker_name=name,
                    nameserver=names.address,
                    data_path=folder / name,
                    file_size="64MiB",
                    max_descriptors=descriptors,
                )
            )
            for name, folder, descriptors in (("a", a or directory, a_descriptors), ("b", directory, 0))
        }
        yield names, brokers


async def kill_in_turn(brokers: dict[str, ServerProcess], seconds: float) -> int:
    """Kill a broker every few seconds and restart it; return how many kills fit into ``seconds``.

    Each kill waits until the last broker is back, so a slow machine makes this longer, not weaker.
    """
    kills = int(seconds // BETWEEN_KILLS)
    names = sorted(brokers)
    for number in range(kills):
        await asyncio.sleep(BETWEEN_KILLS)
        broker = brokers[names[number % len(names)]]
        await until_ready(broker)
        broker.kill()
        broker.start()
    await until_ready(*brokers.values())
    return kills


async def until_ready(*servers: ServerProcess) -> None:
    for server in servers:
        while not server.is_ready:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
