"""A producer that sends until it is stopped: ``spark_producer.py URL TOPIC MOST PER_SECOND``.

It sends as fast as allowed. Its last line is a report.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
import uuid
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

_IN_FLIGHT: Final = 2048
_PADDING: Final = b" " * 100


class Producer:
    """Sends numbered messages with its own name."""

    def __init__(self, topic: str, most: int, per_second: float) -> None:
        self._topic, self._most, self._per_second = topic, most, per_second
        self._name = uuid.uuid4().hex[:8].encode()
        self._free = asyncio.Semaphore(_IN_FLIGHT)
        self.stopping = asyncio.Event()
        self.acked = self.failed = 0

    async def send(self, mq: AsyncClient) -> None:
        begun = time.monotonic()
        for number in range(self._most):
            if (early := begun + number / self._per_second - time.monotonic()) > 0:
                await asyncio.sleep(early + 0.02)
            if self.stopping.is_set():
                break
            await self._free.acquire()
            body = b"%s/%d%s" % (self._name, number, _PADDING)
            try:
                mq.send_nowait(self._topic, body).add_done_callback(self._done)
            except LiteMQError:
                self.failed += 1
                self._free.release()
                await asyncio.sleep(0.1)
        await mq.flush()

    def _done(self, sent: asyncio.Future[SendReceipt]) -> None:
        self._free.release()
        if sent.exception() is None:
            self.acked += 1
        else:
            self.failed += 1


async def main(url: str, topic: str, most: int, per_second: float) -> None:
    async with AsyncClient(url, shutdown_timeout_ms=30_000) as mq:
        producer = Producer(topic, most, per_second)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, producer.stopping.set)
        print("sending", flush=True)  # noqa: T201
        await producer.send(mq)
    print(f"acked {producer.acked} failed {producer.failed}", flush=True)  # noqa: T201


if __name__ == "__main__":
    run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
