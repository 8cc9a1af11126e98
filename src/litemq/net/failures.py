"""The wire form of errors: a code and a message, decoded to the same class by the peer."""

from __future__ import annotations

from litemq import errors
from litemq.errors import ChangeRefusedError, LiteMQError, OverloadedError, RemoteError, SequenceGapError
from litemq.proto.wire_pb2 import Failure

__all__ = ["decode_failure", "encode_failure", "error_from_code"]


def encode_failure(error: LiteMQError) -> bytes:
    """Encode ``error`` as the header of an error frame."""
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
    """Decode the header of an error frame; see ``error_from_code`` for unknown codes."""
    failure = Failure.FromString(header)
    cls = _CLASSES.get(failure.code)
    if cls is not None and issubclass(cls, OverloadedError):
        return cls(failure.message, failure.retry_after_ms)
    if cls is not None and issubclass(cls, ChangeRefusedError):
        return cls(failure.message)  # the state of the group is not sent
    if cls is SequenceGapError:
        return SequenceGapError(failure.message, failure.expected_sequence)
    return error_from_code(failure.code, failure.message)


def error_from_code(code: int, message: str) -> LiteMQError:
    """Create the error with ``code`` and ``message``.

    The result is a ``RemoteError`` if the code is unknown or its class needs more than a message.
    """
    cls = _CLASSES.get(code)
    if cls is None or cls.__init__ is not Exception.__init__ or cls is LiteMQError:
        return RemoteError(code, message)
    return cls(message)
