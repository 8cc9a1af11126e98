"""A cache of parsed request headers, which repeat: few clients send always the same bytes."""

from __future__ import annotations

from typing import Final, TypeVar

__all__ = ["HeaderCache"]

_MAX_HEADERS: Final = 10_000
_MAX_BYTES: Final = 1024  # a longer header has a long filter, or fields that no client sends

V = TypeVar("V")


class HeaderCache(dict[bytes, V]):
    """Parsed headers by their bytes, at most 10 MB of them."""

    def remember(self, header: bytes, value: V) -> None:
        """Keep ``value`` for ``header``, unless the header is long."""
        if len(header) <= _MAX_BYTES:
            if len(self) >= _MAX_HEADERS:
                self.clear()
            self[header] = value
