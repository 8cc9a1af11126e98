"""The engine of ``litemq://``: brokers that NameServers know, over framed TCP."""

from litemq.client.cluster.engine import ClusterEngine, open_engine

__all__ = ["ClusterEngine", "open_engine"]
