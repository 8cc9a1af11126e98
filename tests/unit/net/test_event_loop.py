"""The event loop of servers and commands."""

import builtins
from collections.abc import Callable

import pytest

from litemq.net.event_loop import run


async def _loop_name() -> str:
    import asyncio

    return type(asyncio.get_running_loop()).__module__


def test_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert run(_loop_name()).startswith("uvloop")


def test_plain_asyncio_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., object] = builtins.__import__

    def without_uvloop(name: str, *args: object, **kwargs: object) -> object:
        if name == "uvloop":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_uvloop)
    assert run(_loop_name()).startswith("asyncio")
