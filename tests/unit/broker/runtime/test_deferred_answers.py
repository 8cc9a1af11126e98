"""Deferred answers: every request gets the result or the error of its work."""

import asyncio
import logging
from pathlib import Path

import pytest

from litemq.broker.runtime.deferred_answers import DeferredAnswers, answer_when_safe
from litemq.errors import InvalidArgumentError, LiteMQError, NotConfirmedError, StoreFailedError
from litemq.net.connection import Bytes
from litemq.net.frame import Frame
from support.callers import running_broker
from support.waiting import HANG_S

FRAME = Frame(0, 0, 7, b"", b"")


class _Caller:
    """A caller that keeps its answers."""

    client_id = peer = "tester"
    is_writable = True

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes | LiteMQError] = asyncio.Queue()

    def on_writable(self, resume: object) -> None:
        raise NotImplementedError

    def answer(self, _frame: Frame, header: bytes, attachment: Bytes = b"", *, more: bool = False) -> None:  # noqa: ARG002
        self.received.put_nowait(header + bytes(attachment))

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        raise NotImplementedError

    def refuse(self, _frame: Frame, error: LiteMQError) -> None:
        self.received.put_nowait(error)


async def _until_answered(caller: _Caller) -> bytes | LiteMQError:
    return await asyncio.wait_for(caller.received.get(), HANG_S)


def test_results_and_errors_of_look_ups_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> tuple[bytes, bytes]:
        raise InvalidArgumentError("no")

    def stumble() -> tuple[bytes, bytes]:
        raise KeyError("secret")

    async def main() -> None:
        caller, answers = _Caller(), DeferredAnswers()
        answers.look_up(caller, FRAME, lambda: (b"head", b" and more"))
        assert await _until_answered(caller) == b"head and more"
        answers.look_up(caller, FRAME, fail)
        assert isinstance(await _until_answered(caller), InvalidArgumentError)
        with caplog.at_level(logging.ERROR, "litemq"):
            answers.look_up(caller, FRAME, stumble)
            answer = await _until_answered(caller)
        assert isinstance(answer, StoreFailedError)
        assert "secret" not in str(answer)
        assert "secret" in caplog.text
        answers.close()

    asyncio.run(main())


def test_close_cancels_all_work() -> None:
    async def main() -> None:
        caller, answers, reached = _Caller(), DeferredAnswers(), asyncio.Event()

        async def for_ever() -> tuple[bytes, bytes]:
            reached.set()
            await asyncio.Event().wait()
            return b"", b""

        answers.later(caller, FRAME, for_ever())
        await reached.wait()
        answers.close()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        assert caller.received.empty()

    asyncio.run(main())


def test_an_answer_waits_until_the_log_is_confirmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            store, caller = broker.context.store, _Caller()
            store.create_topic("orders", 1)
            answer_when_safe(store, caller, FRAME, store.log_end, b"done")
            assert await _until_answered(caller) == b"done"
            assert store.confirm_offset >= store.log_end

    asyncio.run(main())


def test_close_answers_requests_whose_work_it_cancels() -> None:
    async def main() -> None:
        caller, answers = _Caller(), DeferredAnswers()
        for _ in range(2):
            answers.later(caller, FRAME, asyncio.get_running_loop().create_future())
        await asyncio.sleep(0)
        answers.later(caller, FRAME, asyncio.get_running_loop().create_future())  # not begun yet
        answers.close()
        for _ in range(3):
            assert isinstance(await _until_answered(caller), NotConfirmedError)

    asyncio.run(main())
