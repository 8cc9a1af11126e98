"""The log of failed calls: which attempts have a traceback, and what the last one says."""

import asyncio
import logging
from typing import Any

import pytest

from litemq import AckPolicy, AsyncClient, Message
from litemq.client.handlers import failure_log
from support.on_loop import on_loop
from support.waiting import eventually


def _broken(_message: Message) -> None:
    raise ValueError("no such order")


async def _fail(caplog: pytest.LogCaptureFixture, records: int, body: Any = b"x", **options: Any) -> str:
    """Run a handler that fails until there are ``records`` in the log; return the message's id."""
    caplog.set_level(logging.DEBUG, logger=failure_log.__name__)
    async with AsyncClient("memory://") as mq:
        subscribe: Any = mq.subscriber("orders", group_id="g", min_backoff=0.001, max_backoff=0.001, **options)
        subscribe(_broken)
        receipt = await mq.send("orders", body)
        task = asyncio.ensure_future(mq.run())
        await eventually(lambda: len(_lines(caplog)) >= records)
        if options.get("ack_policy") is not AckPolicy.ACK:
            while not await mq.dead_letters("orders").count():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return receipt.message_id


def _lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == failure_log.__name__]


@on_loop
async def test_the_last_attempt_is_an_error_with_the_destination(caplog: pytest.LogCaptureFixture) -> None:
    message_id = await _fail(caplog, 3, max_retries=2)
    first, second, last = _lines(caplog)
    assert [each.levelno for each in (first, second, last)] == [logging.WARNING, logging.WARNING, logging.ERROR]
    assert "attempt 1 of 3, the next one in about 0.00" in first.getMessage()
    assert first.getMessage().endswith(" s: ValueError: no such order")
    assert "attempt 2 of 3" in second.getMessage()
    assert second.exc_info is None
    assert "failed for good with" in last.getMessage()
    command = f"litemq dlq show orders {message_id} --group g"
    assert f"attempt 3 of 3: it goes to the dead letters ({command})" in last.getMessage()
    for record in (first, last):
        assert record.exc_info is not None
        text = logging.Formatter().formatException(record.exc_info)
        assert text.splitlines()[1].endswith("in _broken")  # the frames of the client are left out
        assert text.count("Traceback") == 1


@on_loop
async def test_an_error_that_is_not_retried_is_the_last(caplog: pytest.LogCaptureFixture) -> None:
    await _fail(caplog, 1, throws=(ValueError,))
    (last,) = _lines(caplog)
    assert "with an error that is not retried: it goes to the dead letters" in last.getMessage()
    assert last.levelno == logging.ERROR


@on_loop
async def test_a_failure_that_is_acknowledged_says_so(caplog: pytest.LogCaptureFixture) -> None:
    await _fail(caplog, 1, ack_policy=AckPolicy.ACK)
    (only,) = _lines(caplog)
    assert only.getMessage().endswith("; it is acknowledged")
