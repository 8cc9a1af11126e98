"""The engine of ``litemq://``: a cluster of NameServers and brokers, over framed TCP."""

from litemq.client.cluster.engine import ClusterEngine, open_engine

__all__ = ["ClusterEngine", "open_engine"]
