"""The entry point of ``litemq`` and ``python -m litemq``.

It imports the command line late, so that Ctrl-C during the import exits like any other Ctrl-C.
"""

from __future__ import annotations

import os
import signal

__all__ = ["main"]

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    # An interrupt inside an import may surface as another exception. Nothing is open yet: exit.
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # the parent process handles SIGINT itself
        signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(EXIT_INTERRUPTED))
    from litemq.cli.main import run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:
        # Nothing is left to write. A second interrupt during shutdown must not print a traceback.
        os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
