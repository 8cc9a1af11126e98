"""How long the chaos tests run, and whether they judge time.

CI runs the short form, whose outcome depends on logic alone. ``just chaos`` sets
``LITEMQ_CHAOS_SECONDS``: the tests then run for that long, and also compare latencies, gaps and
rates with their goals.
"""

import os
from typing import Final

__all__ = ["JUDGES_TIME", "SECONDS", "SETTLE_S"]

_ASKED: Final = os.environ.get("LITEMQ_CHAOS_SECONDS")
SECONDS: Final = float(_ASKED or "12")
JUDGES_TIME: Final = _ASKED is not None
# A history that is not complete by then never will be. It takes seconds on an idle machine.
SETTLE_S: Final = 300.0
