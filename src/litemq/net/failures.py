"""Errors on the wire: a code and a message, which become the same class again at the other end."""

from __future__ import annotations

from litemq import errors
from litemq.errors import LiteMQError, OverloadedError, RemoteError, SequenceGapError
from litemq.proto.wire_pb2 import Failure

__all__ = ["decode_failure", "encode_failure", "error_of"]


def encode_failure(error: LiteMQError) -> bytes:
    """The header of an error frame."""
    failure = Failure(code=error.code, message=str(error))
    if isinstance(error, OverloadedError):
        failure.retry_after_ms = error.retry_after_ms
    elif isinstance(error, SequenceGapError):
        failure.expected_sequence = error.expected
    return failure.SerializeToString()


def _by_code() -> dict[int, type[LiteMQError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, LiteMQError)]
    return {cls.code: cls for cls in classes}


_CLASSES = _by_code()


def decode_failure(header: bytes) -> LiteMQError:
    """Decode the error of an error frame. If its class needs more than a message, or is unknown here, the result carries the message only."""
    failure = Failure.FromString(header)
    cls = _CLASSES.get(failure.code)
    if cls is not None and issubclass(cls, OverloadedError):
        return cls(failure.message, failure.retry_after_ms)
    if cls is SequenceGapError:
        return SequenceGapError(failure.message, failure.expected_sequence)
    return error_of(failure.code, failure.message)


def error_of(code: int, message: str) -> LiteMQError:
    """The error with ``code``, made of ``message`` only."""
    cls = _CLASSES.get(code)
    if cls is None or cls.__init__ is not Exception.__init__ or cls is LiteMQError:
        return RemoteError(code, message)
    return cls(message)
