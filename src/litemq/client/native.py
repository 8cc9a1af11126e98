"""The switch between the C types of the client and their Python twins.

As with ``litemq.format.native``, the extensions are optional, and ``LITEMQ_PURE`` turns them off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.format import native

if TYPE_CHECKING:
    from litemq.client import _receiving as receiving
    from litemq.client import _sending as sending
else:
    try:
        from litemq.client import _receiving as receiving
        from litemq.client import _sending as sending
    except ImportError:
        receiving = sending = None

__all__ = ["enabled", "receiving", "sending"]

enabled: bool = native.enabled and sending is not None
