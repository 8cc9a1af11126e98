"""Errors on the wire: a code and a message, which become the same class again at the other end."""

from __future__ import annotations

from litemq import errors
from litemq.errors import LiteMQError, RemoteError
from litemq.proto.wire_pb2 import Failure

__all__ = ["decode_failure", "encode_failure"]


def encode_failure(error: LiteMQError, retry_after_ms: int = 0) -> bytes:
    """The header of an error frame."""
    return Failure(code=error.code, message=str(error), retry_after_ms=retry_after_ms).SerializeToString()


def _by_code() -> dict[int, type[LiteMQError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, LiteMQError)]
    return {cls.code: cls for cls in classes}


_CLASSES = _by_code()


def decode_failure(header: bytes) -> LiteMQError:
    """The error that an error frame tells. Where its class says more than a message, or is not known here, it is told by its message alone."""
    failure = Failure.FromString(header)
    cls = _CLASSES.get(failure.code)
    if cls is None or cls.__init__ is not Exception.__init__ or cls is LiteMQError:
        return RemoteError(failure.code, failure.message)
    return cls(failure.message)
