"""Errors of connections and of the protocol."""

from __future__ import annotations

from litemq.errors.base import LiteMQError

__all__ = [
    "AddressInUseError",
    "ConnectionLostError",
    "GroupUnavailableError",
    "NetworkError",
    "ProtocolError",
    "RemoteError",
    "RequestTimeoutError",
    "UnsupportedVersionError",
]


class NetworkError(LiteMQError):
    """A connection or a request failed. The message names the peer and the reason."""

    code = 30


class ProtocolError(NetworkError):
    """The peer violated the protocol. It may not be LiteMQ: check the address and the port."""

    code = 31


class UnsupportedVersionError(NetworkError):
    """Client and server share no protocol version. Upgrade the older one."""

    code = 32


class ConnectionLostError(NetworkError):
    """The connection failed or ended. The outcome of a request in flight is unknown."""

    code = 33
    retriable = True


class GroupUnavailableError(ConnectionLostError):
    """No replica can serve its group: the message names the silent ones and those that are needed.

    Start one of the replicas that are needed.
    """

    code = 105
    retriable = True


class RequestTimeoutError(NetworkError):
    """No answer arrived in time. The outcome of the request is unknown."""

    code = 34
    retriable = True


class RemoteError(NetworkError):
    """The peer reported an error that this version does not know; ``remote_code`` is its code."""

    code = 35
    _parameters = ("remote_code", "message")

    def __init__(self, remote_code: int, message: str) -> None:
        super().__init__(message)
        self.remote_code = remote_code
        self.message = message


class AddressInUseError(NetworkError):
    """Another program already listens on this address. Stop it, or choose another port."""

    code = 36
