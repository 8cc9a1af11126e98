"""Plug-ins see what a client does, and cannot disturb it."""

import asyncio
import logging
import sys
import types
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from litemq import AsyncClient, Message, OutgoingMessage, Plugin, PluginHost, SendReceipt
from litemq.client.extensions import plugins
from support.waiting import eventually


class Watching(Plugin):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def startup(self, client: PluginHost) -> None:
        self.seen.append(("startup", client.is_open))

    async def shutdown(self, client: PluginHost) -> None:
        self.seen.append(("shutdown", client.is_open))

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:
        self.seen.append(("produced", topic, message.body, receipt.queue_offset))

    def consumed(self, message: Message, seconds: float) -> None:
        assert seconds >= 0
        self.seen.append(("consumed", message.body))


class Broken(Plugin):
    async def startup(self, client: PluginHost) -> None:  # noqa: ARG002
        raise ValueError("startup")

    async def shutdown(self, client: PluginHost) -> None:  # noqa: ARG002
        await asyncio.sleep(60)

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:  # noqa: ARG002
        raise ValueError("produced")

    def consumed(self, message: Message, seconds: float) -> None:  # noqa: ARG002
        raise ValueError("consumed")


def test_they_are_told_and_what_they_raise_changes_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(plugins, "_PATIENCE_S", 0.05)
    watching = Watching()

    async def test() -> None:
        mq = AsyncClient("memory://")
        mq.add_plugin(Broken())
        mq.add_plugin(watching)

        @mq.subscriber("orders", group_id="g")
        async def handle(message: Message) -> None: ...

        async with mq:
            await mq.send("orders", b"0", ordering_key="k")
            await mq.send_nowait("orders", b"1", ordering_key="k")
            await mq.send_batch("orders", [OutgoingMessage(b"2", ordering_key="k")])
            running = asyncio.ensure_future(mq.run())
            await eventually(lambda: ("consumed", b"2") in watching.seen)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(test())
    produced = [("produced", "orders", b"%d" % number, number) for number in range(3)]
    consumed = [("consumed", b"%d" % number) for number in range(3)]
    assert watching.seen == [("startup", True), *produced, *consumed, ("shutdown", True)]
    complaints = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(complaints) == 4, "one a hook, however often it raises"
    assert all("Broken" in record.getMessage() and record.exc_info for record in complaints)


def test_installed_ones_are_found(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    entries = [
        EntryPoint("watching", f"{__name__}:Watching", plugins._GROUP),
        EntryPoint("missing", f"{__name__}:Missing", plugins._GROUP),
        EntryPoint("other", "builtins:object", plugins._GROUP),
    ]
    monkeypatch.setitem(sys.modules, __name__, types.SimpleNamespace(Watching=Watching))  # pytest has not put it there
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries if group == plugins._GROUP else [])
    found = plugins.Plugins()
    found.load()
    found.load()
    assert [type(each).__name__ for each in found._plugins] == ["Watching"]
    assert found.hears_sending
    assert [record.getMessage().split("(")[0] for record in caplog.records] == [
        "the plug-in missing ",
        "the plug-in other ",
    ]
