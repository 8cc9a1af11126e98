"""Whoever asked hears of what became of it, whatever that is."""

import asyncio
import logging
from pathlib import Path

import pytest

from litemq.broker.runtime.deferred_answers import DeferredAnswers, answer_when_safe
from litemq.errors import InvalidArgumentError, LiteMQError, StoreFailedError
from litemq.net.connection import Bytes
from litemq.net.frame import Frame
from support.callers import running_broker
from support.waiting import HANG_S

FRAME = Frame(0, 0, 7, b"", b"")


class _Caller:
    """Who keeps what it was told."""

    client_id = peer = "tester"
    has_room = True

    def __init__(self) -> None:
        self.told: asyncio.Queue[bytes | LiteMQError] = asyncio.Queue()

    def when_room(self, resume: object) -> None:
        raise NotImplementedError

    def answer(self, _frame: Frame, header: bytes, attachment: Bytes = b"") -> None:
        self.told.put_nowait(header + bytes(attachment))

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        raise NotImplementedError

    def refuse(self, _frame: Frame, error: LiteMQError) -> None:
        self.told.put_nowait(error)


async def _until_told(caller: _Caller) -> bytes | LiteMQError:
    return await asyncio.wait_for(caller.told.get(), HANG_S)


def test_what_is_looked_up_is_told_and_what_goes_wrong_too(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> tuple[bytes, bytes]:
        raise InvalidArgumentError("no")

    def stumble() -> tuple[bytes, bytes]:
        raise KeyError("secret")

    async def main() -> None:
        caller, answers = _Caller(), DeferredAnswers()
        answers.look_up(caller, FRAME, lambda: (b"head", b" and more"))
        assert await _until_told(caller) == b"head and more"
        answers.look_up(caller, FRAME, fail)
        assert isinstance(await _until_told(caller), InvalidArgumentError)
        with caplog.at_level(logging.ERROR, "litemq"):
            answers.look_up(caller, FRAME, stumble)
            told = await _until_told(caller)
        assert isinstance(told, StoreFailedError)
        assert "secret" not in str(told)
        assert "secret" in caplog.text
        answers.close()

    asyncio.run(main())


def test_nothing_goes_on_behind_a_close() -> None:
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
        assert caller.told.empty()

    asyncio.run(main())


def test_an_answer_waits_until_everything_before_it_is_safe(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            store, caller = broker.context.store, _Caller()
            store.create_topic("orders", 1)
            answer_when_safe(store, caller, FRAME, store.log_end, b"done")
            assert await _until_told(caller) == b"done"
            assert store.confirm_offset >= store.log_end

    asyncio.run(main())
