"""Deferred answers: the broker answers when a thread, a task or a flush finishes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError, NotConfirmedError, StoreFailedError
from litemq.errors.detached import detached
from litemq.net.frame import Frame
from litemq.storage.log.flush import OnFlushed
from litemq.storage.store import Store

__all__ = ["DeferredAnswers", "answer_when_safe", "wait_readable", "wait_safe", "when_safe"]

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
        task = asyncio.get_running_loop().create_task(_answer(caller, frame, work))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                reason = "this broker stopped before it answered: a change may last, or be lost"
                caller.refuse(frame, NotConfirmedError(reason))

        task.add_done_callback(ended)

    def look_up(self, caller: Caller, frame: Frame, look: Callable[[], tuple[bytes, bytes]]) -> None:
        """Answer with the result of ``look``. It runs in a thread, so it may wait for the disk."""
        self.later(caller, frame, asyncio.get_running_loop().run_in_executor(self.lookups, look))

    def close(self) -> None:
        """Cancel all work. Waiting callers get a ``NotConfirmedError``."""
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


def when_safe(store: Store, end: int, on_safe: OnFlushed) -> None:
    """Call ``on_safe(None)`` once a change below log offset ``end`` may be acknowledged.

    It is confirmed then, and in a replicated group this master still has its lease. Call
    ``on_safe(error)`` if the lease is over, or if too few replicas are in sync to confirm anything.
    """
    store.when_replicated(end, lambda failure: on_safe(failure or store.lease_refusal))


def answer_when_safe(store: Store, caller: Caller, frame: Frame, end: int, header: bytes = b"") -> None:
    """Answer a change below log offset ``end`` with ``header``. See ``when_safe``."""

    def answer(failure: LiteMQError | None) -> None:
        if failure is None:
            caller.answer(frame, header)
        else:
            caller.refuse(frame, failure)

    when_safe(store, end, answer)


async def wait_safe(store: Store, end: int) -> None:
    """Wait until a change below log offset ``end`` may be acknowledged. Raise as ``when_safe``."""
    safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_safe(error: LiteMQError | None) -> None:
        if not safe.done():
            safe.set_result(None) if error is None else safe.set_exception(error)

    when_safe(store, end, on_safe)
    await safe


async def wait_readable(store: Store) -> None:
    """Wait until everything in the log is confirmed: a request that reads sees earlier changes.

    Raise if too few replicas are in sync to confirm anything.
    """
    refusal = store.replica_refusal
    if refusal is not None and store.confirm_offset < store.log_end:
        raise detached(refusal)
    await wait_safe(store, store.log_end)
