"""``litemq`` and ``python -m litemq``: small, so that an interrupt while the rest is being loaded is an interrupt like any other."""

from __future__ import annotations

import os

__all__ = ["main"]

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command."""
    try:
        from litemq.cli.main import run

        run()
    except KeyboardInterrupt:
        # Nothing is left to be written, and a second interrupt while Python shuts down must not print anything either.
        os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
