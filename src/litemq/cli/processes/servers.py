"""Broker and NameServer as the command runs them, from resolved settings."""

from __future__ import annotations

from collections.abc import Mapping

from litemq.cli.configuration.resolve import ResolvedSetting, build
from litemq.cli.configuration.tables import BROKER, NAMESERVER
from litemq.cli.processes.serving import ParentLink, serve
from litemq.cli.rendering.logs import Level
from litemq.server.broker_config import BrokerConfig
from litemq.server.nameserver_config import NameServerConfig

__all__ = ["serve_broker", "serve_nameserver"]


def serve_broker(chosen: Mapping[str, ResolvedSetting], level: Level, parent_link: ParentLink | None = None) -> None:
    """Run a broker until it is stopped."""
    config: BrokerConfig = build(BROKER, chosen)
    from litemq.server.broker import run_broker  # late, so that an invalid setting is reported quickly

    link = parent_link or ParentLink()
    serve(
        config.broker_name if config.replicas == 1 else config.broker_id,
        lambda ready, stop: run_broker(config, ready, stop, lambda epoch: link.report(master=epoch)),
        level=level,
        shutdown_timeout_ms=config.shutdown_timeout_ms,
        parent_link=link,
    )


def serve_nameserver(
    chosen: Mapping[str, ResolvedSetting], level: Level, parent_link: ParentLink | None = None
) -> None:
    """Run a NameServer until it is stopped."""
    config: NameServerConfig = build(NAMESERVER, chosen)
    from litemq.server.nameserver import run_nameserver

    serve(
        "nameserver",
        lambda ready, stop: run_nameserver(config, ready, stop),
        level=level,
        shutdown_timeout_ms=config.shutdown_timeout_ms,
        parent_link=parent_link,
    )
