"""Deferred answers: the broker answers when a thread, a task or a flush finishes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError, StoreFailedError
from litemq.net.frame import Frame
from litemq.storage.store import Store

__all__ = ["DeferredAnswers", "answer_when_safe"]

_LOG = logging.getLogger(__name__)


class DeferredAnswers:
    """Runs the work that requests wait for: in background tasks, and in one thread for look-ups."""

    def __init__(self) -> None:
        self.lookups = ThreadPoolExecutor(1, thread_name_prefix="litemq-lookup")
        self._tasks: set[asyncio.Task[None]] = set()

    def in_background(self, work: Coroutine[None, None, None]) -> None:
        """Run ``work`` in a task that is kept until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def later(self, caller: Caller, frame: Frame, work: Awaitable[tuple[bytes, bytes]]) -> None:
        """Answer with the header and the attachment that ``work`` returns, or with its error."""
        self.in_background(_answer(caller, frame, work))

    def look_up(self, caller: Caller, frame: Frame, look: Callable[[], tuple[bytes, bytes]]) -> None:
        """Answer with the result of ``look``. It runs in a thread, so it may wait for the disk."""
        self.later(caller, frame, asyncio.get_running_loop().run_in_executor(self.lookups, look))

    def close(self) -> None:
        """Cancel all work. Waiting callers get an error when their connection ends."""
        for task in self._tasks:
            task.cancel()
        self.lookups.shutdown(wait=False, cancel_futures=True)


async def _answer(caller: Caller, frame: Frame, work: Awaitable[tuple[bytes, bytes]]) -> None:
    try:
        header, attachment = await work
    except LiteMQError as error:
        caller.refuse(frame, error)
    except Exception:  # noqa: BLE001  the caller waits for an answer
        _LOG.exception("a request failed")
        caller.refuse(frame, StoreFailedError("the broker failed to handle the request: see the broker's log"))
    else:
        caller.answer(frame, header, attachment)
    finally:
        del work  # a future has the error, whose traceback has this frame


def answer_when_safe(store: Store, caller: Caller, frame: Frame, end: int, header: bytes = b"") -> None:
    """Answer with ``header`` once the log is confirmed up to ``end``."""

    def confirmed(failure: LiteMQError | None) -> None:
        failure = failure or store.lease_refusal
        if failure is None:
            caller.answer(frame, header)
        else:
            caller.refuse(frame, failure)

    store.when_confirmed(end, confirmed)
