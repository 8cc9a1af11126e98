"""The switch between the C extension and the Python implementation.

The extension is optional. If it was not built, or if ``LITEMQ_PURE`` is set in the environment, the
equivalent Python code runs instead; tests hold the results equal.
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
