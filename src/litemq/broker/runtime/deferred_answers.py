"""Answers that take time: whoever asked hears of what became of it, whatever that is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError, StoreFailedError
from litemq.net.frame import Frame
from litemq.storage.store import Store

__all__ = ["Answering", "answer_when_safe"]

_LOG = logging.getLogger(__name__)


class Answering:
    """What a broker does beside its event loop, and behind the back of whoever asked. On the loop that is running when it is used."""

    def __init__(self) -> None:
        self.lookups = ThreadPoolExecutor(1, thread_name_prefix="litemq-lookup")
        self._tasks: set[asyncio.Task[None]] = set()

    def in_background(self, work: Coroutine[None, None, None]) -> None:
        """Do it, and do not let it be forgotten meanwhile."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def later(self, caller: Caller, frame: Frame, work: Awaitable[tuple[bytes, bytes]]) -> None:
        """Answer with the header and the attachment that ``work`` gives, or with its error."""

        async def answer() -> None:
            try:
                header, attachment = await work
            except LiteMQError as error:
                caller.refuse(frame, error)
            except Exception:  # noqa: BLE001  whoever asked waits for an answer
                _LOG.exception("a request could not be answered")
                caller.refuse(frame, StoreFailedError("the broker could not do this; its log says why"))
            else:
                caller.answer(frame, header, attachment)

        self.in_background(answer())

    def look_up(self, caller: Caller, frame: Frame, look: Callable[[], tuple[bytes, bytes]]) -> None:
        """The same with what ``look`` finds, in a thread: it may wait for the disk."""
        self.later(caller, frame, asyncio.get_running_loop().run_in_executor(self.lookups, look))

    def close(self) -> None:
        """Whoever waits is told by the end of the connection."""
        for task in self._tasks:
            task.cancel()
        self.lookups.shutdown(wait=False, cancel_futures=True)


def answer_when_safe(store: Store, caller: Caller, frame: Frame, end: int, header: bytes = b"") -> None:
    """Answer once everything below a log offset is confirmed."""

    def confirmed(failure: LiteMQError | None) -> None:
        if failure is None:
            caller.answer(frame, header)
        else:
            caller.refuse(frame, failure)

    store.when_confirmed(end, confirmed)
