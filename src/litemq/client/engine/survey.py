"""A survey: one question to many brokers, some of which may not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from litemq.errors import ConnectionLostError, NoRouteError, NotMasterError, PartialAnswerError, RequestTimeoutError

__all__ = ["Survey", "describe_missing"]

T = TypeVar("T")


class Survey:
    """The brokers that a call concerns, and those of them that do not answer.

    A caller asks ``brokers``, and passes what it has gathered to ``complete``, which raises if an
    answer is missing.
    """

    def __init__(self, asked: Sequence[str], missing: Mapping[str, str]) -> None:
        self.asked = asked
        self.missing = dict(missing)  # why each one does not answer

    @property
    def brokers(self) -> list[str]:
        """The brokers that have answered so far."""
        return [broker for broker in self.asked if broker not in self.missing]

    @contextmanager
    def asking(self, broker: str) -> Iterator[None]:
        """Note that ``broker`` is missing if the connection to it fails in the block.

        So is a replicated group without a master, whose replicas refuse all requests.
        """
        try:
            yield
        except (ConnectionLostError, NotMasterError, RequestTimeoutError) as error:
            self.missing[broker] = str(error)

    async def ask(self, question: Callable[[str], Awaitable[T]]) -> list[tuple[str, T]]:
        """Ask all brokers at once; return the answers with the names of the brokers."""
        answers: dict[str, T] = {}

        async def ask_one(broker: str) -> None:
            with self.asking(broker):
                answers[broker] = await question(broker)

        await asyncio.gather(*map(ask_one, self.brokers))
        return [(broker, answers[broker]) for broker in self.asked if broker in answers]

    def complete(self, answer: T) -> T:
        """Return ``answer``.

        Raises:
            PartialAnswerError: A broker is missing. The error has ``answer``.
        """
        if self.missing:
            raise PartialAnswerError(
                f"the answer is incomplete: {describe_missing(self.missing)}", answer, self.missing
            )
        return answer

    def require_all(self, consequence: str = "nothing was changed; retry when it is back") -> None:
        """Raise unless every broker has answered, before anything is changed.

        Raises:
            NoRouteError: A broker is missing. The message ends with ``consequence``.
        """
        if self.missing:
            raise NoRouteError(f"{describe_missing(self.missing)}: {consequence}")


def describe_missing(missing: Mapping[str, str]) -> str:
    """Return a sentence that names the missing brokers and the reasons."""
    return "; ".join(f"broker {broker} does not answer ({reason})" for broker, reason in sorted(missing.items()))
