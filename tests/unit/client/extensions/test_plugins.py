"""Plug-ins observe a client, and cannot disturb it."""

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


class RecordingPlugin(Plugin):
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


class BrokenPlugin(Plugin):
    async def startup(self, client: PluginHost) -> None:  # noqa: ARG002
        raise ValueError("startup")

    async def shutdown(self, client: PluginHost) -> None:  # noqa: ARG002
        await asyncio.sleep(60)

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:  # noqa: ARG002
        raise ValueError("produced")

    def consumed(self, message: Message, seconds: float) -> None:  # noqa: ARG002
        raise ValueError("consumed")


def test_hooks_are_called_and_their_errors_change_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugins, "_HOOK_TIMEOUT_S", 0.05)
    recorder = RecordingPlugin()

    async def test() -> None:
        mq = AsyncClient("memory://")
        mq.add_plugin(BrokenPlugin())
        mq.add_plugin(recorder)

        @mq.subscriber("orders", group_id="g")
        async def handle(message: Message) -> None: ...

        async with mq:
            await mq.send("orders", b"0", ordering_key="k")
            await mq.send_nowait("orders", b"1", ordering_key="k")
            await mq.send_batch("orders", [OutgoingMessage(b"2", ordering_key="k")])
            running = asyncio.ensure_future(mq.run())
            await eventually(lambda: ("consumed", b"2") in recorder.seen)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(test())
    produced = [("produced", "orders", b"%d" % number, number) for number in range(3)]
    consumed = [("consumed", b"%d" % number) for number in range(3)]
    assert recorder.seen == [("startup", True), *produced, *consumed, ("shutdown", True)]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 4, "one for each hook, however often it raises"
    assert all("BrokenPlugin" in record.getMessage() and record.exc_info for record in errors)


def test_installed_plugins_are_loaded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    entries = [
        EntryPoint("watching", f"{__name__}:RecordingPlugin", plugins._GROUP),
        EntryPoint("missing", f"{__name__}:Missing", plugins._GROUP),
        EntryPoint("other", "builtins:object", plugins._GROUP),
    ]
    monkeypatch.setitem(
        sys.modules, __name__, types.SimpleNamespace(RecordingPlugin=RecordingPlugin)
    )  # pytest does not register test modules
    monkeypatch.setattr(plugins, "installed", lambda group: entries if group == plugins._GROUP else [])
    found = plugins.Plugins()
    found.load()
    found.load()
    assert [type(each).__name__ for each in found._plugins] == ["RecordingPlugin"]
    assert found.wants_produced
    assert [record.getMessage().split("(")[0] for record in caplog.records] == [
        "skipping the plug-in missing ",
        "skipping the plug-in other ",
    ]
