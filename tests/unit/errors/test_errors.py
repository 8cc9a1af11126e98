"""Errors: the tree in the docstring equals the classes, and codes are unique."""

import inspect
import pickle
import re

import pytest

from litemq import errors
from litemq.errors import LiteMQError

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, LiteMQError)]


def _tree_in_docstring() -> dict[str, str | None]:
    """Return each class in the drawing with its parent."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.fullmatch(r"    ((?:[│ ]   )*)(?:[├└]── )?(\w+Error)", line)
        if match is None:
            continue
        depth = len(match[1]) // 4 + ("──" in line)
        path = [*path[:depth], match[2]]
        parents[match[2]] = path[depth - 1] if depth else None
    return parents


def test_docstring_draws_the_tree() -> None:
    actual = {cls.__name__: None if cls is LiteMQError else cls.__bases__[0].__name__ for cls in CLASSES}
    assert _tree_in_docstring() == actual
    assert len(actual) > 1


def test_every_class_is_public_and_documented() -> None:
    assert sorted(cls.__name__ for cls in CLASSES) == errors.__all__
    for cls in CLASSES:
        assert cls.__doc__, cls


def test_codes_are_unique() -> None:
    codes = [cls.code for cls in CLASSES]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize(
    "error",
    [
        errors.RecordFormatError("magic", 17, "0xDEADBEEF"),
        errors.MissingExtraError("Arrow", "arrow"),
        errors.BodyTooLargeError("x"),
        errors.CorruptStoreError("commitlog/0", 4096, "crc"),
        errors.RemoteError(900, "unheard of"),
        errors.QuotaExceededError("too much", 50),
        errors.SequenceGapError("a gap", 7),
    ],
)
def test_errors_can_be_pickled(error: LiteMQError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own bytes)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
