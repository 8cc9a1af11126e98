"""Docstrings of the public client: each method documents its parameters and its errors."""

import builtins
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import litemq
import litemq.errors
from litemq.client.admin import AsyncAdmin
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.reader import Reader
from litemq.client.dead_letters.dead_letters import DeadLetters
from litemq.client.dead_letters.redrive import Redrive
from litemq.client.jobs.jobs import Jobs
from litemq.client.sync.messages import SyncMessage
from litemq.client.timers.timers import Timers
from litemq.client.transactions.admin import Transactions

CLASSES = (
    litemq.AsyncClient,
    litemq.Client,
    litemq.Message,
    SyncMessage,
    litemq.Transaction,
    AsyncAdmin,
    Consumer,
    DeadLetters,
    Jobs,
    Reader,
    Redrive,
    Timers,
    Transactions,
)


def _methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, method in inspect.getmembers(owner, inspect.isroutine):
        if not name.startswith("_"):
            yield f"{owner.__name__}.{name}", method


METHODS = [method for owner in CLASSES for method in _methods(owner)]


def _parameters(method: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(method).parameters if name != "self"]


def _section(text: str, title: str) -> str:
    """Return the lines below ``title:`` in a docstring."""
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    return found[1] if found else ""


def _documented(text: str) -> set[str]:
    entries = re.findall(r"^    (\w[\w, ]*):", _section(text, "Args"), re.MULTILINE)
    return {name.strip() for entry in entries for name in entry.split(",")}


def test_all_methods_are_found() -> None:
    assert len(METHODS) > 100
    assert {"AsyncClient.send", "AsyncClient.consumer", "AsyncClient.commit", "AsyncClient.run"} < {
        name for name, _ in METHODS
    }


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_public_method_documents_its_parameters(name: str, method: Callable[..., Any]) -> None:
    missing = [each for each in _parameters(method) if each not in _documented(inspect.getdoc(method) or "")]
    assert not missing, f"{name}() has no entry under Args: for {', '.join(missing)}"


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_public_method_documents_no_parameter_that_it_does_not_have(name: str, method: Callable[..., Any]) -> None:
    unknown = _documented(inspect.getdoc(method) or "") - set(_parameters(method))
    assert not unknown, f"{name}() has no parameter {', '.join(sorted(unknown))}"


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_public_method_documents_its_errors(name: str, method: Callable[..., Any]) -> None:
    text = inspect.getdoc(method) or ""
    assert _section(text, "Raises") or re.search(r"\bRaises nothing\b", text), f"{name}() has no Raises: section"


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_documented_errors_exist(name: str, method: Callable[..., Any]) -> None:
    entries = re.findall(r"^    (\w[\w, ]*):", _section(inspect.getdoc(method) or "", "Raises"), re.MULTILINE)
    errors = [error.strip() for entry in entries for error in entry.split(",")]
    unknown = [error for error in errors if not hasattr(litemq.errors, error) and not hasattr(builtins, error)]
    assert not unknown, f"{name}() documents unknown errors: {', '.join(unknown)}"


@pytest.mark.parametrize("owner", [litemq.AsyncClient, litemq.Client])
def test_the_settings_of_a_client_are_documented(owner: type) -> None:
    assert _documented(inspect.getdoc(owner) or "") == set(_parameters(vars(owner)["__init__"]))
