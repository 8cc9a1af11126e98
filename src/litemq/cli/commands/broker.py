"""``litemq broker``: one broker, in the foreground."""

from __future__ import annotations

from collections.abc import Mapping

from litemq.cli.configuration.flags import with_settings
from litemq.cli.configuration.resolve import ResolvedSetting
from litemq.cli.configuration.tables import BROKER
from litemq.cli.nouns import new_noun
from litemq.cli.options import LogLevel
from litemq.cli.processes.servers import serve_broker
from litemq.cli.rendering.logs import Level

__all__ = ["app"]

app = new_noun("broker")


@app.command("broker")
@with_settings(BROKER)
def broker(*, chosen: Mapping[str, ResolvedSetting], log_level: LogLevel = Level.INFO) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    A flag overrides its environment variable (in brackets), which overrides the key in the --config
    file.
    """
    serve_broker(chosen, log_level)
