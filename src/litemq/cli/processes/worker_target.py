"""Target of ``litemq worker``: the user's module, the client in it, and the handlers to run.

Every error says what is wrong in one message. The user's code may be half written, so its own
errors are reported with their file and line, without the frames of the import system.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import sys
import traceback
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from litemq.client.async_client import AsyncClient
from litemq.client.handlers.app import NO_HANDLER
from litemq.client.sync.client import Client
from litemq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from litemq.client.handlers.subscription import Subscription

__all__ = ["choose_handlers", "load_client"]

_LOG = logging.getLogger(__name__)


def load_client(module: str, name: str, directory: str, url: str | None) -> AsyncClient | Client:
    """Import ``module`` from ``directory`` or the installed packages; return the client ``name``.

    If ``url`` is given, the client uses it instead of its own.

    Raises:
        InvalidArgumentError: The module cannot be imported, or has no such client.
    """
    sys.path.insert(0, directory)
    target = f"{module}:{name}"
    imported = _import(target, module, directory)
    client = getattr(imported, name, None)
    if not isinstance(client, (AsyncClient, Client)):
        clients = [each for each, value in vars(imported).items() if isinstance(value, (AsyncClient, Client))]
        advice = (
            f"choose {' or '.join(f'{module}:{each}' for each in clients)}"
            if clients
            else f"write `{name} = litemq.AsyncClient()` in it"
        )
        problem = "is not a litemq.AsyncClient or litemq.Client in that module"
        raise InvalidArgumentError(f"{target}: {name!r} {problem}: {advice}")
    if url is not None:
        wrapped = client if isinstance(client, AsyncClient) else client._wrapped  # noqa: SLF001
        wrapped._use_url(url)  # noqa: SLF001
        client.url = url
    return client


def _import(target: str, module: str, directory: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise InvalidArgumentError(
                f"{target}: no module {error.name!r} in {directory} or among the installed packages: "
                "run the command in the directory of your program"
            ) from None
        problem = _problem(error, directory)
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        problem = f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}{line}"
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's module may raise anything
        problem = _problem(error, directory)
    raise InvalidArgumentError(f"{target}: cannot import {module}: {problem}")


def _problem(error: BaseException, directory: str) -> str:
    """Describe ``error`` with the last line of the user's own code that led to it."""
    _LOG.debug("importing the module failed", exc_info=error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(directory)]
    text = f"{type(error).__name__}: {error}"
    return f"{own[-1].filename}, line {own[-1].lineno}: {text}" if own else text


def choose_handlers(
    target: str,
    declared: Sequence[Subscription],
    *,
    names: Collection[str],
    topics: Collection[str],
    groups: Collection[str],
) -> list[Subscription]:
    """Return the handlers that have one of ``names``, of ``topics`` and of ``groups``.

    An empty collection does not restrict the choice.

    Raises:
        InvalidArgumentError: There is no handler, a value is unknown, or no handler has all.
    """
    if not declared:
        raise InvalidArgumentError(f"{target}: {NO_HANDLER}")
    _check_known(target, "--handler", "handler", names, [_name(each) for each in declared])
    _check_known(target, "--topic", "handler of topic", topics, [each.topic for each in declared])
    _check_known(target, "--group", "handler of group", groups, [each.group_id for each in declared])
    chosen = [
        each
        for each in declared
        if (not names or _name(each) in names)
        and (not topics or each.topic in topics)
        and (not groups or each.group_id in groups)
    ]
    if not chosen:
        listed = ", ".join(f"{each.name} for group {each.group_id}" for each in declared)
        raise InvalidArgumentError(f"{target}: no handler matches all options; declared: {listed}")
    return chosen


def _name(subscription: Subscription) -> str:
    return getattr(subscription.handler, "__name__", "")


def _check_known(target: str, option: str, what: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = sorted(set(known))
    for each in given:
        if each not in names:
            near = difflib.get_close_matches(each, names, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InvalidArgumentError(f"{option} {each}: {target} has no such {what}: {hint}choose {', '.join(names)}")
