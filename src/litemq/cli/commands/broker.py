"""``litemq broker``: one broker in the foreground; ``litemq broker list``: those of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from litemq.cli.configuration.flags import with_settings
from litemq.cli.configuration.resolve import ResolvedSetting
from litemq.cli.configuration.tables import BROKER
from litemq.cli.connecting import ClientFile, Url, client_settings, with_client
from litemq.cli.nouns import new_noun
from litemq.cli.options import LogLevel
from litemq.cli.partial import note_missing
from litemq.cli.processes.servers import serve_broker
from litemq.cli.rendering.brokers import BROKER_COLUMNS, broker_row, no_brokers
from litemq.cli.rendering.logs import Level
from litemq.cli.rendering.output import Format, OutputFormat, write_rows

if TYPE_CHECKING:
    from litemq import AsyncClient
    from litemq.client.engine.engine import BrokerInfo

__all__ = ["app"]

app = new_noun("broker", runs=True)


@app.callback(invoke_without_command=True)
@with_settings(BROKER)
def broker(context: typer.Context, *, chosen: Mapping[str, ResolvedSetting], log_level: LogLevel = Level.INFO) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    A flag overrides its environment variable (in brackets), which overrides the key in the --config
    file.
    """
    if context.invoked_subcommand is None:
        serve_broker(chosen, log_level)


@app.command("list")
def list_(url: Url = None, config: ClientFile = None, output: Format = OutputFormat.TABLE) -> None:
    """List the brokers that the NameServer knows, and whether each one answers."""

    async def use(mq: AsyncClient) -> list[BrokerInfo]:
        return await mq.admin.brokers()

    found = with_client(url, config, use)
    none = no_brokers(client_settings(url, config)[0])
    write_rows([broker_row(each) for each in found], BROKER_COLUMNS, output, none=none)
    note_missing({each.name: each.problem for each in found if each.problem})
