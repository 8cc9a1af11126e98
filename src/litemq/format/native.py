"""Whether the loops in C do the work, or numpy.

The extension is optional: where it was not built, or where ``LITEMQ_PURE`` is set in the environment, its twins in Python are used. They
give the same answers; tests hold the two equal.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litemq.format import _native as loops
else:
    try:
        from litemq.format import _native as loops
    except ImportError:
        loops = None

__all__ = ["enabled", "loops"]

enabled: bool = loops is not None and not os.environ.get("LITEMQ_PURE")
