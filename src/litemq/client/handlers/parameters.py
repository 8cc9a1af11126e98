"""The parameters of a handler: a message, or the body as a value of the declared type.

``def bill(message: Message)`` gets messages, and so does a parameter without a type. ``def
bill(order: Order)`` gets bodies, decoded as ``Order``; ``def bill(order: Order, message: Message)``
gets both. With ``batch``, the parameter is a list of them.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from litemq.client.messages.message import Message
from litemq.client.messages.model import model_of
from litemq.errors import InvalidArgumentError

__all__ = ["POSITIONAL", "call_with_messages", "resolved_hints"]

_MESSAGES: Final = ("Message", "SyncMessage")
_LISTS: Final = (list, Sequence)


class _Parameters(NamedTuple):
    """What a handler takes."""

    body: Any  # the declared type of the body; ``None``: the handler takes messages
    takes_message: bool  # after the body


def call_with_messages(handler: Callable[..., Any], *, is_batch: bool) -> Callable[[Any], Any]:
    """Return a function that takes a message, or a list of them, and calls ``handler``.

    Raises:
        InvalidArgumentError: The parameters do not fit, or the body cannot be decoded to the
            declared type.
        MissingExtraError: The declared type needs the extra ``pydantic``.
    """
    body, takes_message = _parameters(handler, is_batch=is_batch)
    if body is None:
        return handler
    model_of(body)  # raises here, at the declaration, and not with the first message

    def arguments(given: Any) -> tuple[Any, ...]:
        value = [each.decode(body) for each in given] if is_batch else given.decode(body)
        return (value, given) if takes_message else (value,)

    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def call(given: Any) -> Any:
            return await handler(*arguments(given))

        return call

    @functools.wraps(handler)
    def call_on_a_thread(given: Any) -> Any:
        return handler(*arguments(given))

    return call_on_a_thread


def _parameters(handler: Callable[..., Any], *, is_batch: bool) -> _Parameters:
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):  # built in, without a signature
        return _Parameters(None, takes_message=False)
    name = getattr(handler, "__name__", "the handler")
    required = [each for each in parameters if each.default is each.empty and each.kind not in _VARIADIC]
    positional = [each for each in parameters if each.kind in POSITIONAL]
    variadic = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    if not (positional or variadic) or len(required) > 2 or any(each.kind not in POSITIONAL for each in required):
        raise InvalidArgumentError(
            f"{name}() cannot be a handler: write one parameter, for the message or its body, or two, for the body "
            "and the message"
        )
    if not positional or _is_message(positional[0].annotation, is_batch=is_batch):
        if len(required) > 1:
            raise InvalidArgumentError(
                f"{name}() has two parameters: declare the type of the first one, which gets the body"
            )
        return _Parameters(None, takes_message=False)
    body = resolved_hints(handler).get(positional[0].name, Any)
    if _is_message(body, is_batch=is_batch):
        return _Parameters(None, takes_message=False)
    takes_message = len(positional) > 1 and _is_message(positional[1].annotation, is_batch=is_batch)
    if len(required) > 1 and not takes_message:
        raise InvalidArgumentError(
            f"{name}() cannot be a handler: its second parameter is required, and no {'list of ' * is_batch}Message"
        )
    return _Parameters(_element(name, body) if is_batch else body, takes_message)


POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_message(annotation: Any, *, is_batch: bool) -> bool:
    """Whether a parameter takes messages; also if its type is only known to a type checker."""
    if annotation in (inspect.Parameter.empty, Any, object):
        return True
    if isinstance(annotation, str):
        text = annotation.strip("\"' ")
        if is_batch:
            text = text.rpartition("[")[2].removesuffix("]").strip()
        return text.rpartition(".")[2] in _MESSAGES
    if is_batch:
        if annotation in _LISTS:
            return True
        elements = typing.get_args(annotation)
        return bool(elements) and _is_message(elements[0], is_batch=False)
    if not isinstance(annotation, type):
        return False
    is_ours = annotation.__name__ in _MESSAGES and annotation.__module__.startswith("litemq.")
    return is_ours or issubclass(annotation, Message)


def _element(name: str, body: Any) -> Any:
    if typing.get_origin(body) not in _LISTS:
        raise InvalidArgumentError(
            f"{name}() is called with batches: declare its parameter as a list, such as list[Order]"
        )
    return typing.get_args(body)[0]


def resolved_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters and of its result.

    Raises:
        InvalidArgumentError: A type is not defined where the function is.
    """
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidArgumentError(
            f"{getattr(function, '__name__', 'the handler')}(): cannot find the type of a parameter: {error}. "
            "Define it in the module, and import it not only for type checkers"
        ) from error
