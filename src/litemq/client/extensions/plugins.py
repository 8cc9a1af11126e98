"""Plug-ins: told what a client does, in a way that cannot disturb it. Installed packages name theirs as entry points of ``litemq.plugins``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

from litemq.client.config import ClientConfig
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt

__all__ = ["Plugin", "PluginHost", "Plugins"]

_LOG = logging.getLogger(__name__)
_GROUP: Final = "litemq.plugins"
# For what a plug-in does when a client opens or closes.
_PATIENCE_S: Final = 5.0


class PluginHost(Protocol):
    """The part of a client that a plug-in may use. Both hooks get the client itself; ``AsyncClient`` is a ``PluginHost``."""

    @property
    def url(self) -> str:
        """The URL that the client was made with."""
        ...

    @property
    def config(self) -> ClientConfig:
        """All settings of the client."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the client is connected: true in both hooks."""
        ...

    async def flush(self) -> None:
        """Wait until everything that was sent has its outcome."""
        ...


class Plugin:
    """What happens with a client: override what you want to know. What a hook raises is logged, and changes nothing.

    The hooks that are no coroutines are called on the client's event loop, between two messages: let them be quick.
    """

    async def startup(self, client: PluginHost) -> None:
        """The client has opened."""

    async def shutdown(self, client: PluginHost) -> None:
        """The client is about to close."""

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:
        """A message was stored."""

    def consumed(self, message: Message, seconds: float) -> None:
        """A handler has done a message, in so many seconds."""

    def failed(self, message: Message, error: BaseException) -> None:
        """A handler's try failed."""


class Plugins:
    """All plug-ins of one client: those that were added, and those that are installed."""

    def __init__(self) -> None:
        self._plugins: list[Plugin] = []
        self._complained: set[tuple[int, str]] = set()
        self._loaded = False
        self.hears_sending = False

    def add(self, plugin: Plugin) -> None:
        """Tell this one, too."""
        self._plugins.append(plugin)
        self.hears_sending = self.hears_sending or type(plugin).produced is not Plugin.produced

    def load(self) -> None:
        """Add those that are installed, once. One that cannot be loaded is left out."""
        if self._loaded:
            return
        self._loaded = True
        for entry in entry_points(group=_GROUP):
            try:
                made = entry.load()()
                if not isinstance(made, Plugin):
                    raise TypeError(f"it makes a {type(made).__name__}, not a litemq.Plugin")  # noqa: TRY301
            except Exception:  # noqa: BLE001  others are not to do without the client for it
                _LOG.exception("the plug-in %s (%s) is left out", entry.name, entry.value)
            else:
                self.add(made)

    async def startup(self, client: PluginHost) -> None:
        for plugin in self._plugins:
            await self._wait_for(plugin, "startup", client)

    async def shutdown(self, client: PluginHost) -> None:
        for plugin in reversed(self._plugins):
            await self._wait_for(plugin, "shutdown", client)

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:
        for plugin in self._plugins:
            self._tell(plugin, "produced", plugin.produced, topic, message, receipt)

    def consumed(self, message: Message, seconds: float) -> None:
        for plugin in self._plugins:
            self._tell(plugin, "consumed", plugin.consumed, message, seconds)

    def failed(self, message: Message, error: BaseException) -> None:
        for plugin in self._plugins:
            self._tell(plugin, "failed", plugin.failed, message, error)

    async def _wait_for(self, plugin: Plugin, hook: str, client: PluginHost) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await getattr(plugin, hook)(client)
        except Exception:  # noqa: BLE001  a plug-in's error is its own
            self._complain(plugin, hook)

    def _tell(self, plugin: Plugin, hook: str, method: Callable[..., None], *facts: Any) -> None:
        try:
            method(*facts)
        except Exception:  # noqa: BLE001
            self._complain(plugin, hook)

    def _complain(self, plugin: Plugin, hook: str) -> None:
        """At length the first time: what fails with each message must not fill the log."""
        first = (id(plugin), hook) not in self._complained
        self._complained.add((id(plugin), hook))
        level = logging.ERROR if first else logging.DEBUG
        _LOG.log(level, "the plug-in %s raised in %s; the client goes on", type(plugin).__name__, hook, exc_info=first)
