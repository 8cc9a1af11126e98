"""Fail points in the Python processes that Spark starts.

Python imports this module by itself, because tests put its folder on the path.

``LITEMQ_TEST_KILL=<point>@<n>`` kills the driver's session with SIGKILL when it reaches the point
for the n-th time, and only then; the file ``LITEMQ_TEST_KILL_COUNT`` counts. This module wraps the
points in Spark's code and in ours; production code contains none.

    before-commit    all tasks of a micro-batch have ended; the sink's commit is not yet called
    after-commit     the sink's commit is done, Spark does not know it yet
    <module>:<name>  before a call of the module's function; with ``!`` appended, after its return

With ``LITEMQ_TEST_HOURS_OVER=1``, compaction includes the current hour.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_RUNNER: Final = "pyspark.sql.worker.python_streaming_sink_runner"
_COMPACTION: Final = "litemq.spark.pipelines.compaction"
_POINT, _, _TIMES = os.environ.get("LITEMQ_TEST_KILL", "").partition("@")
_AT: Final = int(_TIMES or 1)

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def _kill() -> None:
    """Kill everything of this session at one moment, as when a host goes down.

    A child outside the session does it, the session's first process first: otherwise that process
    might see the others end, and end by itself.
    """
    with Path(os.environ["LITEMQ_TEST_KILL_COUNT"]).open("ab") as count:
        count.write(b".")
        if count.tell() != _AT:
            return
    session = os.getsid(0)
    if os.fork():
        while True:
            signal.pause()
    try:
        os.setsid()
        os.kill(session, signal.SIGKILL)
        for _ in range(3):  # some may be starting others
            for entry in Path("/proc").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                        os.kill(int(entry.name), signal.SIGKILL)
    finally:
        os._exit(0)


def _before(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        _kill()
        return function(*arguments, **named)

    return call


def _after(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        _kill()
        return result

    return call


def _later(function: Callable[..., Any]) -> Callable[..., Any]:
    """The last argument is the time, in seconds."""

    def call(*arguments: Any) -> Any:
        return function(*arguments[:-1], arguments[-1] + 7200)

    return call


def _place(point: str) -> tuple[str, str, Wrap]:
    if point == "before-commit":
        return _RUNNER, "read_long", _after  # the batch's id, the last but one that is read before the call
    if point == "after-commit":
        return _RUNNER, "write_int", _before  # the answer to Java
    module, _, name = point.removesuffix("!").partition(":")
    return module, name, _after if point.endswith("!") else _before


class _Loader(importlib.abc.Loader):
    """Loads a module as another does, and wraps one function of it."""

    def __init__(self, loader: importlib.abc.Loader, name: str, wrap: Wrap) -> None:
        self._loader, self._name, self._wrap = loader, name, wrap

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        *owners, name = self._name.split(".")
        owner: Any = module
        for step in owners:
            owner = getattr(owner, step)
        setattr(owner, name, self._wrap(getattr(owner, name)))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module of which a function is wrapped."""

    def __init__(self, module: str, name: str, wrap: Wrap) -> None:
        self._module, self._name, self._wrap = module, name, wrap

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        others = sys.meta_path[
            sys.meta_path.index(self) + 1 :
        ]  # another like this one, for the same module, is behind it or was asked before
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._name, self._wrap)
        return spec


if _POINT:
    sys.meta_path.insert(0, _Finder(*_place(_POINT)))
if os.environ.get("LITEMQ_TEST_HOURS_OVER"):
    sys.meta_path.insert(0, _Finder(_COMPACTION, "groups_to_merge", _later))
