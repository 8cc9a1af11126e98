"""A server as a child of ``litemq up``: ``python -m litemq.cli.processes.child PROGRAM LEVEL FD FLAGS``.

The same as ``litemq PROGRAM`` with those flags, a JSON object by field, but without what a command line costs to parse: half of the time in
which a broker starts. It loads everything, waits for the parent's word, and begins. It reports an error to the parent, which prints it.
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
from litemq.cli.processes.serving import STOPPING_SIGNALS, Lifeline
from litemq.cli.rendering.exit_codes import exit_code
from litemq.cli.rendering.logs import Level
from litemq.errors import LiteMQError

__all__ = ["main"]


def main() -> None:
    """Run until the parent lets go of the line, or is gone."""
    for number in STOPPING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # they reach the whole process group: the parent decides, and lets go of the line
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)  # the parent held them back until here
    program, level, fd, flags = sys.argv[1:]
    lifeline = Lifeline(int(fd))
    try:
        from litemq.cli.processes import servers

        table = TABLES[program]
        importlib.import_module(f"litemq.server.{program}")
        lifeline.wait_for_start()
        file = os.environ.get(table.file_variable)
        chosen = resolve(table, flags=json.loads(flags), environment=os.environ, file=Path(file) if file else None)
        serve = servers.serve_broker if program == "broker" else servers.serve_nameserver
        serve(chosen, Level(level), lifeline)
    except LiteMQError as error:
        lifeline.report(error=type(error).__name__, message=str(error))
        sys.exit(exit_code(type(error)))


if __name__ == "__main__":
    main()
