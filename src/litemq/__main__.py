"""``litemq`` and ``python -m litemq``: small, so that an interrupt while the rest is being loaded is an interrupt like any other."""

from __future__ import annotations

import os
import signal

__all__ = ["main"]

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command."""
    # An exception in the middle of an import may come out of it as any other. Nothing is open yet: just end.
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # whoever started us wants to be the one who is interrupted
        signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(EXIT_INTERRUPTED))
    from litemq.cli.main import run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:
        # Nothing is left to be written, and a second interrupt while Python shuts down must not print anything either.
        os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
