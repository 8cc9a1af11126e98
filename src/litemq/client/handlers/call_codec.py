"""The arguments and the result of a task as JSON values, by the types of its function."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from litemq.client.handlers.parameters import POSITIONAL, resolved_hints
from litemq.client.messages.model import Model, model_of
from litemq.errors import InvalidArgumentError, MissingExtraError, SerializationError

__all__ = ["CallCodec"]

# Values of these types are JSON values already.
_PLAIN: Final = (str, int, float, bool, None, type(None), Any, object, dict, list)


class CallCodec:
    """Encodes calls of ``function`` and their results.

    Parameters with a type such as a dataclass, ``datetime`` or ``Decimal`` get values of this type.
    Others take JSON values.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = inspect.signature(function)
        self._positional = [each.name for each in self._signature.parameters.values() if each.kind in POSITIONAL]
        try:
            hints = resolved_hints(function)
        except InvalidArgumentError:  # a type that only a type checker knows
            hints = {}
        self._models = {name: model for name, hint in hints.items() if (model := _model(hint)) is not None}

    def encode_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call as a message value. Raises ``TypeError`` if the arguments do not fit."""
        self._signature.bind(*args, **kwargs)
        if not self._models:
            return {"args": list(args), "kwargs": dict(kwargs)}
        names = [*self._positional, *[""] * len(args)]
        return {
            "args": [self._encode(name, value) for name, value in zip(names, args, strict=False)],
            "kwargs": {name: self._encode(name, value) for name, value in kwargs.items()},
        }

    def decode_call(self, value: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in a message value.

        Raises:
            TypeError, KeyError, ValueError: It is not a call of the function.
        """
        args, kwargs = value["args"], value["kwargs"]
        if self._models:
            names = [*self._positional, *[""] * len(args)]
            args = [self._decode(name, given) for name, given in zip(names, args, strict=False)]
            kwargs = {name: self._decode(name, given) for name, given in kwargs.items()}
        self._signature.bind(*args, **kwargs)
        return args, kwargs

    def encode_result(self, value: Any) -> Any:
        """Return the result of a call as a JSON value."""
        return self._encode("return", value)

    def decode_result(self, value: Any) -> Any:
        """Return the result of a call from a JSON value."""
        return self._decode("return", value)

    def _encode(self, name: str, value: Any) -> Any:
        model = self._models.get(name)
        if model is None:
            return value
        try:
            return json.loads(model.dumps(value))
        except (TypeError, ValueError) as error:
            raise SerializationError(
                f"{name}: this {type(value).__name__} is no valid {model.name}: {error}"
            ) from error

    def _decode(self, name: str, value: Any) -> Any:
        model = self._models.get(name)
        return value if model is None else model.check(value)


def _model(hint: Any) -> Model[Any] | None:
    if hint in _PLAIN:
        return None
    try:
        return model_of(hint)
    except (InvalidArgumentError, MissingExtraError, TypeError):  # TypeError: not hashable
        return None
