"""The root of all errors, and errors of arguments, records and installations."""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "BodyCodecError",
    "BodyTooLargeError",
    "ConfigurationError",
    "CronSyntaxError",
    "FilterSyntaxError",
    "InvalidArgumentError",
    "LiteMQError",
    "MissingExtraError",
    "RecordFormatError",
    "ResetNotFoundError",
    "UnsupportedFeatureError",
]


class LiteMQError(Exception):
    """The root of the tree: catch it to catch every error that LiteMQ raises on purpose."""

    code: ClassVar[int] = 1  # names the class on the wire and in the reference; never reused
    retriable: ClassVar[bool] = False  # the same call, repeated unchanged, may succeed
    _parameters: ClassVar[tuple[str, ...]] = ()  # of a constructor that takes more than a message

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle the arguments of the constructor instead of the message built from them."""
        arguments = tuple(getattr(self, name) for name in self._parameters)
        return (type(self), arguments) if arguments else super().__reduce__()


class InvalidArgumentError(LiteMQError):
    """A value is invalid. The message names the value, the rule and the accepted values."""

    code = 2


class ConfigurationError(InvalidArgumentError):
    """A setting is unknown or invalid. The message names it, its source and the closest match."""

    code = 4


class FilterSyntaxError(InvalidArgumentError):
    """The filter expression is invalid. The message quotes the error; nothing was delivered."""

    code = 6


class CronSyntaxError(InvalidArgumentError):
    """The schedule is invalid or never matches. The message names the field and valid values."""

    code = 75


class ResetNotFoundError(InvalidArgumentError):
    """The group has no such offset reset. ``litemq group describe`` shows its resets."""

    code = 81


class MissingExtraError(LiteMQError):
    """An optional dependency is missing. Run the ``pip install`` command in the message."""

    code = 3
    _parameters = ("what", "extra")

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional library: pip install 'litemq[{extra}]'")
        self.what = what
        self.extra = extra


class UnsupportedFeatureError(LiteMQError):
    """This version or engine lacks the feature. The message names an alternative."""

    code = 5


class RecordFormatError(LiteMQError):
    """The bytes at ``position`` are not a valid record; ``problem`` names the broken rule."""

    code = 10
    _parameters = ("problem", "position", "detail")

    def __init__(self, problem: str, position: int, detail: str = "") -> None:
        super().__init__(f"record at byte {position}: {problem}" + (f" ({detail})" if detail else ""))
        self.problem, self.position, self.detail = problem, position, detail


class BodyCodecError(LiteMQError):
    """A body cannot be compressed or decompressed: its bytes or its codec are wrong."""

    code = 11


class BodyTooLargeError(BodyCodecError):
    """A decompressed body exceeds the limit. Raise the limit if you trust the sender."""

    code = 12
