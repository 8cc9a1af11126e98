"""Partial answers: the command shows what it has, names the missing brokers, and exits with 8."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

import typer

from litemq.cli.rendering.exit_codes import EXIT_PARTIAL
from litemq.errors import PartialAnswerError

__all__ = ["accept_partial", "note_missing", "note_problems", "partial_accepted", "reports_missing"]

T = TypeVar("T")
_EXPLAINED: Final = ""  # by another sentence
_NOTED: Final[ContextVar[dict[str, str]]] = ContextVar("what is wrong: a sentence for each server or problem")


@contextmanager
def reports_missing() -> Iterator[None]:
    """Run a command; at its end, report the servers noted meanwhile on standard error."""
    missing: dict[str, str] = {}
    token = _NOTED.set(missing)
    try:
        try:
            yield
        except typer.Exit:
            if not missing:
                raise
        if missing:
            sys.stdout.flush()  # the report comes after the output
            for sentence in sorted(filter(None, missing.values())):
                typer.secho("incomplete", fg="yellow", bold=True, err=True, nl=False)
                sys.stderr.write(f" {sentence}\n")
            raise typer.Exit(EXIT_PARTIAL)
    finally:
        _NOTED.reset(token)


def note_missing(missing: Mapping[str, str], kind: str = "broker") -> None:
    """Have the servers in ``missing`` reported at the end of the command, each once."""
    for name, reason in missing.items():
        _NOTED.get().setdefault(f"{kind} {name}", f"{kind} {name} does not answer: {reason}")


def note_problems(of: str, problems: Collection[str], *, explains: str = "") -> None:
    """Have ``problems`` reported at the end of the command; the answer itself is complete.

    They say why the broker ``explains`` does not answer, if it is named.
    """
    sentences = [f"{of}: {problem}" for problem in problems]
    _NOTED.get().update(zip(sentences, sentences, strict=True))
    if sentences and explains:
        _NOTED.get()[f"broker {explains}"] = _EXPLAINED


@contextmanager
def partial_accepted() -> Iterator[None]:
    """End the block at a ``PartialAnswerError``, and note its brokers."""
    try:
        yield
    except PartialAnswerError as error:
        note_missing(error.missing)


async def accept_partial(call: Awaitable[T]) -> T:
    """Await ``call``. If its answer is partial, note the missing brokers and return it."""
    try:
        return await call
    except PartialAnswerError as error:
        note_missing(error.missing)
        answer: T = error.answer
        return answer
