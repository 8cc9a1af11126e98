"""Plug-ins: hooks that observe a client and cannot disturb it.

Installed packages register theirs as entry points of the group ``litemq.plugins``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from litemq.client.config import ClientConfig
from litemq.client.entry_points import installed
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt

__all__ = ["Plugin", "PluginHost", "Plugins"]

_LOG = logging.getLogger(__name__)
_GROUP: Final = "litemq.plugins"
_HOOK_TIMEOUT_S: Final = 5.0  # of ``startup`` and ``shutdown``


class PluginHost(Protocol):
    """The part of a client that a plug-in may use; ``AsyncClient`` implements it."""

    @property
    def url(self) -> str:
        """The URL of the client."""
        ...

    @property
    def config(self) -> ClientConfig:
        """The settings of the client."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the client is open: true in ``startup`` and ``shutdown``."""
        ...

    async def flush(self) -> None:
        """Wait until every message sent so far is stored or has failed."""
        ...


class Plugin:
    """Hooks of a client: override those you need.

    An exception in a hook is logged, and changes nothing else.

    Hooks that are not coroutines run on the client's event loop, between two messages: keep them
    fast.
    """

    async def startup(self, client: PluginHost) -> None:
        """Run after the client has opened."""

    async def shutdown(self, client: PluginHost) -> None:
        """Run before the client closes."""

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:
        """Run after a message was stored."""

    def consumed(self, message: Message, seconds: float) -> None:
        """Run after a handler has processed ``message`` in ``seconds``."""

    def failed(self, message: Message, error: BaseException) -> None:
        """Run after a handler has failed with ``error``."""


class Plugins:
    """All plug-ins of one client: those that were added, and those of installed packages."""

    def __init__(self) -> None:
        self._plugins: list[Plugin] = []
        self._logged: set[tuple[int, str]] = set()
        self._loaded = False
        self.wants_produced = False

    def add(self, plugin: Plugin) -> None:
        self._plugins.append(plugin)
        self.wants_produced = self.wants_produced or type(plugin).produced is not Plugin.produced

    def load(self) -> None:
        """Add the plug-ins of installed packages, once.

        A plug-in that cannot be loaded is logged and skipped.
        """
        if self._loaded:
            return
        self._loaded = True
        for entry in installed(_GROUP):
            try:
                made = entry.load()()
                if not isinstance(made, Plugin):
                    raise TypeError(f"expected a litemq.Plugin, got {type(made).__name__}")  # noqa: TRY301
            except Exception:  # noqa: BLE001  a broken plug-in must not break the client
                _LOG.exception("skipping the plug-in %s (%s)", entry.name, entry.value)
            else:
                self.add(made)

    async def startup(self, client: PluginHost) -> None:
        for plugin in self._plugins:
            await self._run_hook(plugin, "startup", client)

    async def shutdown(self, client: PluginHost) -> None:
        for plugin in reversed(self._plugins):
            await self._run_hook(plugin, "shutdown", client)

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:
        for plugin in self._plugins:
            self._call(plugin, "produced", plugin.produced, topic, message, receipt)

    def consumed(self, message: Message, seconds: float) -> None:
        for plugin in self._plugins:
            self._call(plugin, "consumed", plugin.consumed, message, seconds)

    def failed(self, message: Message, error: BaseException) -> None:
        for plugin in self._plugins:
            self._call(plugin, "failed", plugin.failed, message, error)

    async def _run_hook(self, plugin: Plugin, hook: str, client: PluginHost) -> None:
        try:
            async with asyncio.timeout(_HOOK_TIMEOUT_S):
                await getattr(plugin, hook)(client)
        except Exception:  # noqa: BLE001  a plug-in must not disturb the client
            self._log_error(plugin, hook)

    def _call(self, plugin: Plugin, hook: str, method: Callable[..., None], *arguments: Any) -> None:
        try:
            method(*arguments)
        except Exception:  # noqa: BLE001
            self._log_error(plugin, hook)

    def _log_error(self, plugin: Plugin, hook: str) -> None:
        """Log the current exception; with its traceback only once for each hook."""
        first = (id(plugin), hook) not in self._logged
        self._logged.add((id(plugin), hook))
        level = logging.ERROR if first else logging.DEBUG
        _LOG.log(
            level,
            "the plug-in %s raised an exception in %s; the client continues",
            type(plugin).__name__,
            hook,
            exc_info=first,
        )
