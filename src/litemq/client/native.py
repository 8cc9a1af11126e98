"""The switch between the C types of sending and their Python twins.

As with ``litemq.format.native``, the extension is optional, and ``LITEMQ_PURE`` turns it off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.format import native

if TYPE_CHECKING:
    from litemq.client import _sending as sending
else:
    try:
        from litemq.client import _sending as sending
    except ImportError:
        sending = None

__all__ = ["enabled", "sending"]

enabled: bool = native.enabled and sending is not None
