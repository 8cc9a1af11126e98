"""A server as a child process of ``litemq up``.

    python -m litemq.cli.processes.child PROGRAM LEVEL FD FLAGS

Runs ``litemq PROGRAM`` with ``FLAGS``, a JSON object by field, without parsing a command line,
which takes half of a broker's start-up time. The child imports its modules, waits for the parent's
start signal on the socket ``FD``, and reports errors to the parent, which prints them.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path

from litemq.cli.configuration.resolve import resolve
from litemq.cli.configuration.tables import TABLES
from litemq.cli.processes.serving import STOPPING_SIGNALS, ParentLink
from litemq.cli.rendering.exit_codes import exit_code
from litemq.cli.rendering.logs import Level
from litemq.errors import LiteMQError

__all__ = ["main"]


def main() -> None:
    """Run the server until the parent closes its end of the socket or exits."""
    for number in STOPPING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)  # the parent blocked them
    program, level, fd, flags = sys.argv[1:]
    parent_link = ParentLink(int(fd))
    try:
        from litemq.cli.processes import servers

        table = TABLES[program]
        importlib.import_module(f"litemq.server.{program}")
        parent_link.wait_for_start()
        file = os.environ.get(table.file_variable)
        chosen = resolve(table, flags=json.loads(flags), environment=os.environ, file=Path(file) if file else None)
        serve = servers.serve_broker if program == "broker" else servers.serve_nameserver
        serve(chosen, Level(level), parent_link)
    except LiteMQError as error:
        parent_link.report(error=type(error).__name__, message=str(error))
        sys.exit(exit_code(type(error)))


if __name__ == "__main__":
    main()
